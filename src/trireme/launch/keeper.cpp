#include "trireme/launch/keeper.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <iomanip>
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

constexpr int kReportLines = 10;
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

Ending ending_of(int status) {
  if (WIFSIGNALED(status))
    return {
        .exit_code = 0,
        .signal = WTERMSIG(status),
        .core_dumped = WCOREDUMP(status) != 0};
  return {.exit_code = WEXITSTATUS(status)};
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
           .listen = kListen}),
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
  if (job_.attempt() > 0)
    sweep();
  start_all();
}

void Keeper::start_all() {
  noted_ = false;
  rank_of_.clear();
  started_ = Clock::now();
  const Options& options = plan_.options;
  const JobPlace place{
      .ranks = options.ranks,
      .run_id = options.run_id,
      .master_addr = options.master_addr,
      .master_port = options.master_port != 0 ? options.master_port : free_port(),
      .restart_count = job_.attempt(),
      .max_restarts = options.max_restarts,
      .cores = plan_.cores};
  roll_ = RankRoll::create(segment_name(launch_env(place)), options.ranks);
  const Environment inherited = Environment::of_process();
  for (int rank = 0; rank < options.ranks; ++rank)
    start_one(rank, place, inherited);
}

void Keeper::start_one(int rank, const JobPlace& place, const Environment& inherited) {
  Environment::Variables more = plan_.options.variables;
  more[RankRoll::kVariable] = roll_.path();
  RankStart start{
      .rank = rank,
      .body = &plan_.body,
      .variables = rank_variables(place, rank, inherited, more),
      .cpus = plan_.cpus.empty() ? std::vector<int>()
                                 : plan_.cpus[static_cast<size_t>(rank)],
      // As mpirun does: what is piped into the launcher is rank 0's.
      .in = rank == 0 && ::isatty(STDIN_FILENO) == 0 ? -1 : nothing_,
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
      to_file ? open_log_file(log_file(plan_.run_folder, job_.attempt(), rank, err))
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
       .prefix = prefix ? text("[rank ", rank, "] ") : "",
       .file = file});
  return ends[1];
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
  int signal = 0;
  const ssize_t got = ::recv(front_, &signal, sizeof signal, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (got != static_cast<ssize_t>(sizeof signal)) {
    alone_ = true;
    job_.abandon();
  } else if (is_stop_signal(signal)) {
    stop(signal);
  } else {
    signal_all(signal);
    if (signal == SIGUSR1 || signal == SIGUSR2)
      job_.passed_on();
  }
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
  if (job_.left() == 0)
    report_failure();  // before the job forgets this attempt
}

void Keeper::note_failure() {
  noted_ = true;
  failure_ = *job_.failure();
  failure_->last_lines = stderr_end(failure_->rank);
  const double seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  std::string others;
  for (const int rank : job_.failed())
    if (rank != failure_->rank)
      others += text(others.empty() ? "" : ", ", rank);
  report_ = text(
      "rank ",
      failure_->rank,
      " of ",
      plan_.options.ranks,
      " ",
      to_string(failure_->ending),
      " after ",
      std::fixed,
      std::setprecision(1),
      seconds,
      " s");
  if (!others.empty())
    report_ += text("; at the same moment failed: ", others);
  others_left_ = job_.left() > 0;
}

// Tells it when the others have had their moment: of a rank that was killed only they
// can say something.
void Keeper::report_failure() {
  if (report_.empty())
    return;
  std::string report = std::exchange(report_, {});
  if (job_.will_restart())
    report += text(
        "; all ranks are started again (restart ",
        job_.attempt() + 1,
        " of ",
        plan_.options.max_restarts,
        ")");
  else if (others_left_)
    report += "; the other ranks are stopped";
  if (failure_->ending.exit_code == kResumable) {
    // It has said itself why, and what it wrote is no trouble.
    say(report + "; it can go on from what it saved");
    return;
  }
  if (!failure_->last_lines.empty()) {
    say(report + "; the end of its stderr:");
    err_.add(indented(failure_->last_lines, "    "));
    return;
  }
  for (const int rank : job_.followed())
    if (const std::string lines = stderr_end(rank); !lines.empty()) {
      say(text(report, "; it wrote nothing to stderr, but rank ", rank, " then did:"));
      err_.add(indented(lines, "    "));
      return;
    }
  say(report + "; it wrote nothing to stderr");
}

std::string Keeper::stderr_end(int rank) const {
  const Options& options = plan_.options;
  if (options.tee.of(rank).err || !options.redirects.of(rank).err)
    return relay_.last_lines(rank, kReportLines);
  const auto path = log_file(plan_.run_folder, job_.attempt(), rank, true);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return {};
  std::array<char, Tail::kMostBytes> bytes;
  const off_t size = ::lseek(file, 0, SEEK_END);
  const ssize_t got = ::pread(
      file,
      bytes.data(),
      bytes.size(),
      std::max<off_t>(0, size - off_t{Tail::kMostBytes}));
  ::close(file);
  Tail tail;
  tail.add({bytes.data(), static_cast<size_t>(std::max<ssize_t>(0, got))});
  return tail.last_lines(kReportLines);
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
