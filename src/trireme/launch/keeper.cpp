#include "trireme/launch/keeper.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/core/segment_file.h"
#include "trireme/launch/log_files.h"
#include "trireme/launch/processes.h"

namespace trireme::launch {
namespace {

constexpr auto kSweepLimit = std::chrono::seconds(5);
// For the others to notice that a rank has died, and to say what they know of it.
constexpr auto kListen = std::chrono::seconds(1);

int checked(int fd, const char* what) {
  if (fd < 0)
    throw Error(text(
        "[launch] expected ",
        what,
        ", got ",
        errno_text(errno),
        errno == EMFILE ? "; raise the limit of open files (ulimit -n)" : ""));
  return fd;
}

int open_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCHLD);
  for (const int signal : kStopSignals)
    ::sigaddset(&set, signal);
  return checked(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), "a signalfd");
}

void close_if_open(int fd) {
  if (fd > STDERR_FILENO)
    ::close(fd);
}

}  // namespace

Keeper::Keeper(const KeeperPlan& plan, int front)
    : plan_(plan),
      front_(front),
      signals_(open_signals()),
      nothing_(checked(::open("/dev/null", O_RDONLY | O_CLOEXEC), "/dev/null")),
      job_(
          {.ranks = plan.options.ranks,
           .max_restarts = plan.options.max_restarts,
           .grace = plan.options.grace,
           .listen = kListen,
           .led = plan.options.nodes.has_value()}),
      led_(plan.options.nodes.has_value()),
      place_({.ranks_in_all = plan.options.ranks}),
      run_folder_(plan.run_folder),
      out_(STDOUT_FILENO),
      err_(STDERR_FILENO),
      pid_of_(static_cast<size_t>(plan.options.ranks), -1) {}

Keeper::~Keeper() {
  ::close(signals_);
  ::close(nothing_);
}

Outcome Keeper::run() {
  try {
    Step step;
    while ((step = job_.next(Clock::now())).kind != Step::Kind::Finish) {
      if (step.kind == Step::Kind::Wait) {
        wait_for_events(job_.wake());
      } else {
        report_failure();
        carry_out(step);
      }
    }
    report_failure();
    sweep();
    finish_output();
  } catch (...) {
    relay_
        .clear();  // to find processes takes descriptors, which may be what is missing
    end_children(Deadline::after(kSweepLimit));
    remove_stale_segments();
    throw;
  }
  return {
      .exit_code = job_.exit_code(), .restarts = job_.attempt(), .failure = failure_};
}

void Keeper::carry_out(const Step& step) {
  if (step.kind == Step::Kind::Signal) {
    signal_all(step.signal);
    signal_all(SIGCONT);  // one that is suspended would not hear it
    return;
  }
  if (step.kind == Step::Kind::Ask) {
    sweep();
    return tell({.kind = Word::Kind::Idle});
  }
  if (job_.attempt() > 0)
    sweep();
  start_all();
}

JobPlace Keeper::place_of_attempt() const {
  const Options& options = plan_.options;
  JobPlace place{
      .ranks = place_.ranks_in_all,
      .local_ranks = options.ranks,
      .first_rank = place_.first_rank,
      .node = place_.node,
      .nodes = place_.nodes,
      .roles = led_ ? std::vector<RoleShare>() : plan_.roles,
      .run_id = led_ ? place_.run_id : options.run_id,
      .master_addr = led_ ? place_.master_addr : options.master_addr,
      .master_port = led_ ? place_.master_port : options.master_port,
      .restart_count = job_.attempt(),
      .max_restarts = led_ ? place_.max_restarts : options.max_restarts,
      .cores = plan_.cores,
      .store = place_.store,
      .job_key = led_ ? place_.job_key : plan_.job_key};
  if (place.master_port == 0)
    place.master_port = free_port();
  return place;
}

void Keeper::start_all() {
  noted_ = false;
  rank_of_.clear();
  started_ = Clock::now();
  const Options& options = plan_.options;
  const JobPlace place = place_of_attempt();
  roll_ =
      RankRoll::create(segment_name(launch_env(place).on_this_host()), options.ranks);
  const Environment inherited = Environment::of_process();
  for (int rank = 0; rank < options.ranks; ++rank)
    start_one(rank, place, inherited);
}

void Keeper::start_one(int rank, const JobPlace& place, const Environment& inherited) {
  Environment::Variables more = plan_.options.variables;
  more[RankRoll::kVariable] = roll_.path();
  RankStart start{
      .rank = rank,
      .body = &plan_.bodies[role_index(plan_.roles, rank)],
      .variables = rank_variables(place, rank, inherited, more),
      .cpus = plan_.cpus.empty() ? std::vector<int>()
                                 : plan_.cpus[static_cast<size_t>(rank)],
      // As mpirun does: what is piped into the launcher is rank 0's.
      .in = world_rank(rank) == 0 && ::isatty(STDIN_FILENO) == 0 ? -1 : nothing_,
      .out = make_stream(rank, false),
      .err = make_stream(rank, true),
      .leave = [this] { leave(); }};
  const pid_t pid = start_rank(start, plan_.state);
  close_if_open(start.out);
  close_if_open(start.err);
  rank_of_[pid] = rank;
  pid_of_[static_cast<size_t>(rank)] = pid;
}

// The descriptor that becomes a rank's stdout or stderr, or -1 for the launcher's own.
// stderr always passes through here, so that a report can quote its end.
int Keeper::make_stream(int rank, bool err) {
  const Options& options = plan_.options;
  const auto chosen = [&](const StreamChoice& choice) {
    const Streams streams = choice.of(rank);
    return err ? streams.err : streams.out;
  };
  const bool tee = chosen(options.tee);
  const bool to_file = tee || chosen(options.redirects);
  const int file =
      to_file
          ? open_log_file(log_file(run_folder_, job_.attempt(), world_rank(rank), err))
          : -1;
  if (to_file && !tee)
    return file;
  const bool prefix = tee || options.prefix;
  if (!err && !prefix)
    return -1;
  int ends[2];
  checked(::pipe2(ends, O_CLOEXEC), "a pipe");
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  relay_.add(
      rank,
      err,
      ends[0],
      {.console = err ? &err_ : &out_,
       .prefix = prefix ? prefix_of(rank) : "",
       .file = file});
  return ends[1];
}

std::string Keeper::prefix_of(int rank) const {
  const std::string role =
      several_programs() ? text(" ", role_of(plan_.roles, rank).name) : "";
  return text("[rank ", world_rank(rank), role, "] ");
}

void Keeper::signal_all(int signal) {
  for (int rank = 0; rank < plan_.options.ranks; ++rank)
    if (job_.running(rank)) {
      const pid_t pid = pid_of_[static_cast<size_t>(rank)];
      ::kill(-pid, signal);
      if (::getpgid(pid) != pid)  // it has gone to another group
        ::kill(pid, signal);
    }
}

void Keeper::wait_for_events(std::optional<Clock::time_point> wake) {
  const bool full = out_.full() || err_.full();
  std::array<pollfd, 5> waits = {
      pollfd{.fd = alone_ ? -1 : front_, .events = POLLIN, .revents = 0},
      pollfd{.fd = signals_, .events = POLLIN, .revents = 0},
      pollfd{.fd = full ? -1 : relay_.fd(), .events = POLLIN, .revents = 0},
      pollfd{.fd = out_.empty() ? -1 : out_.fd(), .events = POLLOUT, .revents = 0},
      pollfd{.fd = err_.empty() ? -1 : err_.fd(), .events = POLLOUT, .revents = 0}};
  int timeout = -1;
  if (wake)
    timeout = static_cast<int>(std::clamp<int64_t>(
        std::chrono::ceil<std::chrono::milliseconds>(*wake - Clock::now()).count(),
        0,
        60'000));
  if (::poll(waits.data(), waits.size(), timeout) < 0)
    return;  // a signal that is not ours
  if (waits[0].revents != 0)
    take_request();
  if (waits[2].revents != 0)
    relay_.pass_on();
  if (waits[1].revents != 0)
    take_signals();
  flush_consoles();
}

void Keeper::take_request() {
  std::string packet(kMostPacket, '\0');
  const ssize_t got = ::recv(front_, packet.data(), packet.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  packet.resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
  int signal = 0;
  if (is_word(packet) && packet.size() != sizeof signal)
    return take_word(decode_word(packet));
  if (packet.size() != sizeof signal) {
    alone_ = true;
    return job_.abandon();
  }
  std::memcpy(&signal, packet.data(), sizeof signal);
  if (is_stop_signal(signal))
    return stop(signal);
  if (led_ && job_.left() == 0)
    say(text(
        signal_name(signal), " came while no rank runs here; send it again later"));
  pass(signal);
  if (led_)
    tell({.kind = Word::Kind::Passed, .number = signal});
}

void Keeper::pass(int signal) {
  signal_all(signal);
  if (signal == SIGUSR1 || signal == SIGUSR2)
    job_.passed_on();
}

void Keeper::take_signals() {
  signalfd_siginfo info{};
  bool child = false;
  while (::read(signals_, &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD)
      child = true;
    else
      stop(signal);
  }
  if (child)
    reap();
}

void Keeper::stop(int signal) {
  ++stops_;
  const bool restart = job_.will_restart();
  job_.stop(signal);
  if (led_)
    tell({.kind = Word::Kind::Stopping, .number = signal});
  if (restart)
    say(text("the ranks are not started again, because of ", signal_name(signal)));
}

void Keeper::reap() {
  struct Ended {
    int rank;
    Ending ending;
  };
  std::vector<Ended> batch;
  int status = 0;
  for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;)
    if (const auto found = rank_of_.find(pid); found != rank_of_.end()) {
      batch.push_back({found->second, ending_of(status)});
      rank_of_.erase(found);
    }
  // Of several that were found at once, one that crashed is rather the cause than one
  // that gave up.
  std::stable_sort(batch.begin(), batch.end(), [](const Ended& a, const Ended& b) {
    return a.ending.signal != 0 && b.ending.signal == 0;
  });
  for (const Ended& one : batch)
    roll_.set_ended(one.rank);  // those who wait for it to join learn it from here
  for (const Ended& one : batch) {
    relay_.drain(one.rank);
    job_.ended(one.rank, one.ending);
  }
  if (job_.failure() != nullptr && !noted_)
    note_failure();
  tell_if_obeyed();
  if (job_.left() == 0)
    report_failure();  // before the job forgets this attempt
}

// After the last rank of an attempt: what they have left behind must not disturb the
// next one, nor outlive the job.
void Keeper::sweep() {
  if (const int ended = end_children(Deadline::after(kSweepLimit)); ended > 0)
    say(text(
        ended,
        ended == 1 ? " process that the ranks had left behind was ended"
                   : " processes that the ranks had left behind were ended"));
  // A job that was stopped while its ranks came together may have left its segment.
  remove_stale_segments();
  relay_.clear();
  flush_consoles();
}

// What was printed is part of the result, so a slow reader gets its time: all of it, or
// a moment if the job was to stop.
void Keeper::finish_output() {
  constexpr auto kMoment = std::chrono::seconds(2);
  const auto end = Clock::now() + (job_.asked() ? Clock::duration(kMoment)
                                                : Clock::duration(Deadline::kLongest));
  const int stops = stops_;
  while (!alone_ && stops_ == stops && !(out_.empty() && err_.empty()) &&
         Clock::now() < end)
    wait_for_events(end);
}

void Keeper::flush_consoles() {
  out_.flush();
  err_.flush();
}

// In a rank that is a fork of this process.
void Keeper::leave() {
  ::close(front_);
  ::close(signals_);
  ::close(nothing_);
  roll_ = {};
  relay_.close_in_child();
  out_.close_in_child();
  err_.close_in_child();
}

void Keeper::say(const std::string& line) {
  err_.add(text("[launch] ", line, "\n"));
}

}  // namespace trireme::launch
