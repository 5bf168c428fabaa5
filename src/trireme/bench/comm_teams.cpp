#include "trireme/bench/comm_teams.h"

#include "trireme/comm/mpi/mpi_backend.h"
#include "trireme/core/error.h"
#include "trireme/launch/program.h"
#include "trireme/net/job_key.h"

namespace trireme::bench {
namespace {

// What all ranks together took of one core while they waited, in percent.
double share_of_core(const Rows& rows) {
  double seconds = 0;
  for (const auto& row : rows)
    for (const double spent : row)
      seconds += spent;
  return 100 * seconds / std::chrono::duration<double>(kLateRank).count();
}

// One process to talk to: the launcher, whose stdin is rank 0's.
std::vector<WorkerStart> launched_start(
    const std::filesystem::path& program,
    const std::vector<std::string>& worker,
    int ranks,
    Environment::Variables variables) {
  std::vector<std::string> command{
      (program.parent_path() / "trireme").string(), "run", "-n", text(ranks), "--"};
  command.insert(command.end(), worker.begin(), worker.end());
  command.push_back("--worker-led");
  variables["TRIREME_TIMEOUT"] = "86400";  // others measure while it waits for a job
  return {{.command = command, .variables = variables}};
}

Environment::Variables our_variables(CommTeam team) {
  Environment::Variables variables{
      {"OMP_NUM_THREADS", "1"},
      {"TRIREME_BACKEND", "shm"},
      {"TRIREME_TIMEOUT", "60"},
      {"TRIREME_FLIGHT_DIR", ""}};  // an abort is no accident here
  const bool hosts = link_of(team) != HostLink::None;
  if (team == CommTeam::Tcp || hosts)
    variables["TRIREME_BACKEND"] = "tcp";
  if (team == CommTeam::Mpi)
    variables["TRIREME_BACKEND"] = "mpi";
  if (team == CommTeam::Tcp)
    variables["TRIREME_SECURITY"] = "insecure-loopback";
  if (hosts)
    variables["TRIREME_JOB_KEY"] = net::JobKey::random().text();
  return variables;
}

Environment::Variables gloo_variables(CommTeam team) {
  Environment::Variables variables{{"OMP_NUM_THREADS", "1"}};
  if (link_of(team) != HostLink::None)
    variables["GLOO_SOCKET_IFNAME"] = TwoHosts::kInterface;
  // Otherwise gloo asks for the address of the host's name, which not every host has.
  else if (!Environment::of_process().has("GLOO_SOCKET_IFNAME"))
    variables["GLOO_SOCKET_IFNAME"] = "lo";
  return variables;
}

const char* name_of(CommTeam team) {
  switch (team) {
    case CommTeam::Shm:
      return "shm";
    case CommTeam::Launched:
      return "launched";
    case CommTeam::Local:
      return "local";
    case CommTeam::Gloo:
    case CommTeam::GlooHosts:
    case CommTeam::GlooGigabit:
      return "gloo";
    case CommTeam::Mpi:
      return "mpi";
    case CommTeam::Tcp:
    case CommTeam::TcpHosts:
    case CommTeam::TcpGigabit:
      break;
  }
  return "tcp";
}

}  // namespace

CommTeams::CommTeams(const std::filesystem::path& program)
    : program_(program), gloo_(find_peer("comm", Environment::of_process(), program)) {}

std::vector<double> CommTeams::measure(const CommSide& side, int ranks) {
  try {
    if (is_gloo(side.team) && !gloo_.missing.empty())
      return {};
    const Rows rows = get(side.team, ranks).ask(to_line(side.job), kAnswerLimit);
    if (side.job.op == "wait")
      return {share_of_core(rows)};
    auto times = side.job.op.starts_with("abort") ? spread(rows) : slowest(rows);
    for (double& time : times)
      time *= 1e6;
    return times;
  } catch (const Error& error) {
    // Our own failures end the benchmark; without the peer it goes on, and says so.
    if (!is_gloo(side.team))
      throw;
    gloo_.missing = peer_failed(error.what());
    teams_.erase(side.team);
    return {};
  }
}

WorkerTeam& CommTeams::get(CommTeam team, int ranks) {
  if (ranks != ranks_)
    teams_.clear();
  ranks_ = ranks;
  auto& place = teams_[team];
  if (!place)
    place = std::make_unique<WorkerTeam>(name_of(team), starts(team, ranks));
  return *place;
}

std::vector<WorkerStart> CommTeams::starts(CommTeam team, int ranks) {
  const auto command =
      is_gloo(team)
          ? gloo_.command
          : std::vector<std::string>{program_.string(), "bench", "--worker", "comm"};
  const auto variables = is_gloo(team) ? gloo_variables(team) : our_variables(team);
  if (team == CommTeam::Launched)
    return launched_start(program_, command, ranks, variables);
  if (team == CommTeam::Mpi)
    return mpirun_start(command, ranks, variables);
  if (team == CommTeam::Local) {
    std::vector<std::string> threads = command;
    threads.insert(threads.end(), {"--worker-threads", text(ranks)});
    return {{.command = threads, .variables = variables}};
  }
  auto all = rank_starts(command, ranks, variables);
  if (team == CommTeam::Tcp)
    return on_hosts_of_their_own(std::move(all));
  const HostLink link = link_of(team);
  if (link == HostLink::None)
    return all;
  return hosts_.try_emplace(link, link).first->second.place(std::move(all));
}

std::string missing_mpi() {
  if (!comm::has_mpi())
    return "this build is without MPI; install libopenmpi-dev and openmpi-bin, "
           "configure with TRIREME_MPI=ON, and build again";
  const Environment here = Environment::of_process();
  try {
    launch::find_program("mpirun", here.find("PATH").value_or(""));
  } catch (const InvalidArgument&) {
    return "there is no mpirun in PATH; install openmpi-bin";
  }
  return {};
}

std::vector<WorkerStart> mpirun_start(
    const std::vector<std::string>& worker,
    int ranks,
    const Environment::Variables& variables) {
  std::vector<std::string> command{
      "mpirun",
      "--allow-run-as-root",
      "--oversubscribe",
      "--bind-to",
      "none",
      "-n",
      text(ranks)};
  command.insert(command.end(), worker.begin(), worker.end());
  command.push_back("--worker-led");
  return {{.command = command, .variables = variables}};
}

std::vector<WorkerStart> on_hosts_of_their_own(std::vector<WorkerStart> starts) {
  for (size_t rank = 0; rank < starts.size(); ++rank) {
    starts[rank].variables["LOCAL_RANK"] = "0";
    starts[rank].variables["LOCAL_WORLD_SIZE"] = "1";
    starts[rank].variables["GROUP_RANK"] = text(rank);
  }
  return starts;
}

}  // namespace trireme::bench
