#include "trireme/launch/launcher.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/machine.h"
#include "trireme/launch/await.h"
#include "trireme/launch/company.h"
#include "trireme/launch/keeper.h"
#include "trireme/launch/log_files.h"
#include "trireme/launch/placement.h"
#include "trireme/launch/program.h"
#include "trireme/launch/variables.h"
#include "trireme/net/tls.h"

namespace trireme::launch {
namespace {

// For launchers on other hosts to end, beyond the time of grace.
constexpr std::chrono::seconds kRemoteLimit{15};

void check_nodes(const Nodes& nodes, const std::string& address, int port) {
  if (nodes.least < 1 || nodes.most < nodes.least)
    throw InvalidArgument(text(
        "[launch] expected a number of nodes from 1, and a least that is not above the "
        "most, got ",
        nodes.least,
        " and ",
        nodes.most,
        "; correct --nnodes"));
  if (nodes.rank < -1 || nodes.rank >= nodes.most)
    throw InvalidArgument(text(
        "[launch] expected a node's number from 0 to ",
        nodes.most - 1,
        ", got ",
        nodes.rank,
        "; correct --node-rank"));
  if (port == 0)
    throw InvalidArgument(
        "[launch] expected master_port for a job of several nodes, got none; choose "
        "one that is free on node 0, and give it to all nodes");
  if (const auto host = net::Address::tcp(address, port).host;
      host == "0.0.0.0" || host == "::")
    throw InvalidArgument(text(
        "[launch] expected the address of node 0 for the nodes to meet at, got ",
        host,
        ", which each machine takes for itself; give --master-addr or --rdzv-endpoint "
        "the name by which all reach node 0"));
}

// It names folders, and stands in lines of text.
void check_run_id(const std::string& id) {
  constexpr size_t kMost = 1024;
  if (id.size() > kMost)
    throw InvalidArgument(text(
        "[launch] expected --rdzv-id of at most ",
        kMost,
        " bytes, got ",
        id.size(),
        "; give the job a shorter id"));
  const auto odd = [](unsigned char c) { return c < ' ' || c == 0x7f || c == '/'; };
  if (std::any_of(id.begin(), id.end(), odd))
    throw InvalidArgument(text(
        "[launch] expected --rdzv-id without slashes and control characters, got ",
        in_quotes(id),
        "; give the job an id of letters, digits and the like"));
}

void check(const Options& options) {
  if (options.ranks < 1)
    throw InvalidArgument(text(
        "[launch] expected at least one rank, got ",
        options.ranks,
        "; give the number of ranks with -n"));
  if (options.ranks > kMostRanks)
    throw InvalidArgument(text(
        "[launch] expected at most ",
        kMostRanks,
        " ranks on one host, got ",
        options.ranks,
        "; each is a process with memory and threads of its own"));
  if (options.max_restarts < 0 || options.grace.count() < 0)
    throw InvalidArgument(text(
        "[launch] expected max_restarts and grace of at least 0, got ",
        options.max_restarts,
        " and ",
        options.grace.count(),
        " ms; give numbers from 0"));
  for (const StreamChoice* choice : {&options.redirects, &options.tee})
    if (!choice->ranks.empty() && choice->ranks.rbegin()->first >= options.ranks)
      throw InvalidArgument(text(
          "[launch] expected redirects and tee for ranks below ",
          options.ranks,
          ", got one for rank ",
          choice->ranks.rbegin()->first,
          "; drop it, or start more ranks"));
  constexpr int kMostPort = 65535;
  if (options.master_port < 0 || options.master_port > kMostPort)
    throw InvalidArgument(text(
        "[launch] expected master_port from 1 to ",
        kMostPort,
        ", or 0 for a free one, got ",
        options.master_port,
        "; choose one of these"));
  check_run_id(options.run_id);
  if (options.nodes)
    check_nodes(*options.nodes, options.master_addr, options.master_port);
}

// A node knows neither the programs of the others nor how many ranks of them there are.
void check_one_program(const std::vector<RoleShare>& roles) {
  if (roles.size() > 1)
    throw InvalidArgument(text(
        "[launch] expected one program for a job of several hosts (--nnodes, --hosts), "
        "got ",
        roles.size(),
        ", from ",
        roles.front().name,
        " to ",
        roles.back().name,
        "; run them on one host, or as one program that looks at its rank"));
  if (roles[0].name != LaunchRole().name)
    throw InvalidArgument(text(
        "[launch] expected no --role for a job of several hosts (--nnodes, --hosts), "
        "got ",
        in_quotes(roles[0].name),
        "; leave it out: roles are told apart on one host only"));
}

// While it lives, descriptors 0 to 2 are open: a pipe of ours that took the place of a
// closed stdout would be the ranks'.
class StandardFiles {
 public:
  StandardFiles() {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
      if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) == fd)
        opened_[fd] = true;
  }
  ~StandardFiles() {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
      if (opened_[fd])
        ::close(fd);
  }
  StandardFiles(const StandardFiles&) = delete;
  StandardFiles& operator=(const StandardFiles&) = delete;

 private:
  bool opened_[STDERR_FILENO + 1] = {};
};

// What does not outlive an exec is of no use to ranks that are programs. Kept open
// here, it would keep others from seeing its end: another job's keeper, for one.
void close_private(int socket) {
  std::vector<int> open;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end;
       entry.increment(error))
    open.push_back(std::atoi(entry->path().filename().c_str()));
  for (const int fd : open)
    if (const int flags = ::fcntl(fd, F_GETFD);
        fd > STDERR_FILENO && fd != socket && flags >= 0 && (flags & FD_CLOEXEC) != 0)
      ::close(fd);
}

// Two pipes a rank, and some for ourselves; ranks get the old limit back.
void raise_file_limit(int ranks) {
  rlimit limit{};
  const rlim_t wanted = 64 + 4 * static_cast<rlim_t>(ranks);
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < wanted) {
    limit.rlim_cur = std::min(wanted, limit.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

Environment variables_of(const Options& options) {
  return Environment(Environment::of_process().merged(options.variables));
}

// What runs in each part of a job, and how it is called.
struct Parts {
  std::vector<RoleShare> roles;
  std::vector<RankBody> bodies;
};

KeeperPlan make_plan(const Options& options, Parts parts) {
  KeeperPlan plan{
      .options = options,
      .roles = std::move(parts.roles),
      .bodies = std::move(parts.bodies)};
  if (plan.options.run_id.empty())
    plan.options.run_id = fresh_run_id();
  if (options.logs() && options.nodes) {
    check_log_dir(options.log_dir);  // node 0 says how the folder is called
  } else if (options.logs()) {
    plan.run_folder = make_run_folder(options.log_dir, plan.options.run_id);
    if (options.log_dir.empty())
      std::cerr << "[launch] the ranks' output goes to " << plan.run_folder.string()
                << std::endl;
  }
  // Ranks of one host may talk over tcp, too.
  if (!options.nodes && net::has_tls() && !has_security(variables_of(options)))
    plan.job_key = net::JobKey::random().text();
  plan.cores = available_cores();
  if (options.pin)
    plan.cpus = plan_cores(read_cpus(allowed_cpus()), options.ranks);
  return plan;
}

// Of a job with other nodes: what protects the launchers' talk. It is looked at before
// anything starts.
std::optional<CompanyPlan> plan_company(
    const Options& options, const KeeperPlan& plan) {
  if (!options.nodes)
    return std::nullopt;
  CompanyPlan company{
      .options = plan.options,
      .wanted_run_id = options.run_id,
      .security = {},
      .job_key = {}};
  const Environment env = variables_of(options);
  if (options.nodes->remotes.empty() || has_security(env)) {
    company.security = net::Security::from_environment(env);
    if (env.has("TRIREME_JOB_KEY_FILE"))
      company.job_key = net::JobKey::read(env.string("TRIREME_JOB_KEY_FILE")).text();
  } else {
    const net::JobKey key = net::JobKey::random();
    company.security = net::Security::job_key(key);
    company.job_key = key.text();
  }
  return company;
}

// The life of the keeper's process.
[[noreturn]] void keep(const KeeperPlan& plan, int socket) {
  ::setsid();
  // A name of its own: `killall -9` of the launcher's name must not take the one that
  // cleans up after it.
  ::prctl(PR_SET_NAME, kKeeperName);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);  // ignored, it would take the ranks' exit codes away
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  ::pthread_sigmask(SIG_BLOCK, &child, nullptr);
  if (!plan.bodies[0].function)
    close_private(socket);
  raise_file_limit(plan.options.ranks);
  int code = 0;
  try {
    Keeper keeper(plan, socket);
    send_outcome(socket, keeper.run());
  } catch (const std::exception& error) {
    send_error(socket, error.what());
    code = 1;
  }
  ::_exit(code);
}

struct Keeping {
  pid_t pid = -1;
  int socket = -1;
};

Keeping fork_keeper(const KeeperPlan& plan, const SignalScope& signals) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(text(
        "[launch] expected a socket, got ", errno_text(errno), "; raise ulimit -n"));
  std::cout.flush();
  std::cerr.flush();
  std::fflush(nullptr);
  const pid_t keeper = ::fork();
  if (keeper == 0) {
    ::close(ends[0]);
    ::close(signals.fd());
    keep(plan, ends[1]);
  }
  const int code = errno;
  ::close(ends[1]);
  if (keeper < 0) {
    ::close(ends[0]);
    throw Error(text(
        "[launch] expected a process for the job, got ",
        errno_text(code),
        "; raise ulimit -u, or free memory"));
  }
  return {.pid = keeper, .socket = ends[0]};
}

// Waits with the other nodes of the job. They learn it if this one cannot go on.
Outcome await_with_company(
    const CompanyPlan& plan, const Keeping& keeping, const SignalScope& signals) {
  std::optional<Company> company;
  try {
    company.emplace(plan, signals.before());
  } catch (...) {
    ::close(keeping.socket);  // which ends the keeper
    ::waitpid(keeping.pid, nullptr, 0);
    throw;
  }
  Outcome outcome;
  try {
    outcome = await_outcome(
        {.keeper = keeping.pid,
         .socket = keeping.socket,
         .signals = signals.fd(),
         .company = &*company});
  } catch (const Error& error) {
    company->leave(error.what());
    throw;
  }
  company->finish(plan.options.grace + kRemoteLimit);
  return outcome;
}

Outcome run(const Options& options, Parts parts) {
  const StandardFiles files;
  KeeperPlan plan = make_plan(options, std::move(parts));
  const auto company = plan_company(options, plan);
  const SignalScope signals;
  plan.state = signals.before();
  const Keeping keeping = fork_keeper(plan, signals);
  if (company)
    return await_with_company(*company, keeping, signals);
  return await_outcome(
      {.keeper = keeping.pid, .socket = keeping.socket, .signals = signals.fd()});
}

size_t thread_count() {
  std::error_code error;
  size_t count = 0;
  for (std::filesystem::directory_iterator entry("/proc/self/task", error), end;
       !error && entry != end;
       entry.increment(error))
    ++count;
  return count;
}

}  // namespace

Outcome spawn(const Options& options, const std::vector<std::string>& command) {
  const Part part{.ranks = options.ranks, .command = command};
  return spawn(options, std::span(&part, 1));
}

Outcome spawn(const Options& options, std::span<const Part> parts) {
  Parts all{.roles = read_roles(parts), .bodies = {}};
  Options counted = options;
  counted.ranks = ranks_in_all(all.roles);
  check(counted);
  if (options.nodes)
    check_one_program(all.roles);
  const Environment here = Environment::of_process();
  const auto path = here.find("PATH").value_or("/usr/bin:/bin");
  for (const Part& part : parts)
    all.bodies.push_back(
        {.program = find_program(part.command[0], path),
         .arguments = part.command,
         .function = {}});
  return run(counted, std::move(all));
}

Outcome spawn(const Options& options, const std::function<int(int rank)>& body) {
  check(options);
  if (const size_t threads = thread_count(); threads > 1)
    throw InvalidArgument(text(
        "[launch] expected to fork ranks from a process with one thread, got ",
        threads,
        "; call spawn() earlier, or give it a program"));
  const RoleShare role{.name = LaunchRole().name, .ranks = options.ranks};
  return run(
      options,
      {.roles = {role},
       .bodies = {{.program = {}, .arguments = {}, .function = body}}});
}

}  // namespace trireme::launch
