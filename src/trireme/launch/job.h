// What to do when a rank ends, somebody asks to stop, or time passes. Decides only:
// keeper.cpp carries it out, tests drive it with a clock of their own.
#pragma once
#include <chrono>
#include <optional>
#include <vector>

#include "trireme/launch/options.h"

namespace trireme::launch {

/// What is to be done next.
struct Step {
  enum class Kind {
    Wait,    // until something happens, or until Job::wake()
    Ask,     // whoever leads the job whether, and where, the ranks may start
    Start,   // all ranks, as attempt number Job::attempt()
    Signal,  // to all ranks that are left
    Finish,  // the job is over: Job::exit_code()
  };
  Kind kind = Kind::Wait;
  /// Which, where a signal is to be sent.
  int signal = 0;
};

/// A job's course: start, run, and on the first wish to stop a signal, a time of grace,
/// and SIGKILL. After a failure the others first get a moment to find out for
/// themselves and to say so; then perhaps all of it again. A job that is led, because
/// it has ranks on other nodes too, asks before each start, and goes on only as it is
/// told.
///
///     for (Step step = job.next(now); step.kind != Step::Kind::Wait;
///          step = job.next(now)) carry_out(step);
class Job {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Plan {
    int ranks = 1;
    int max_restarts = 0;
    std::chrono::milliseconds grace = std::chrono::seconds(10);
    /// The time between a failure and SIGTERM for the others.
    std::chrono::milliseconds listen{0};
    /// Whether somebody else decides about starts and about the end.
    bool led = false;
  };
  explicit Job(const Plan& plan);

  /// The next thing to do; call it until it says Wait or Finish.
  Step next(Time now);
  /// When next() should be called though nothing has happened.
  std::optional<Time> wake() const { return wake_; }

  /// A rank has ended.
  void ended(int rank, const Ending& ending);
  /// Somebody asks to stop, with this signal; the second time there is no more grace.
  void stop(int signal);
  /// A signal that need not mean a wish to stop has gone to the ranks. One that then
  /// ends with kResumable has taken it for one: it has not failed, and nothing is
  /// started again. The others get the time of grace to do the same.
  void passed_on() { passed_on_ = true; }
  /// The answers to Step::Kind::Ask: start, as this attempt of so many; or not.
  void go(int attempt, int max_restarts);
  void over(int code);
  /// Something has failed on another node, which makes this the exit code; or a rank
  /// there has obeyed a signal that was passed on.
  void failed_elsewhere(int code);
  void obeyed_elsewhere() { obeyed_ = true; }
  /// Nobody leads any more: what is here ends with this code.
  void leaderless(int code);
  /// Nobody waits for this job any more: no grace, no restart.
  void abandon();

  /// Whether somebody has asked to stop.
  bool asked() const { return asked_ != 0; }
  /// How often all ranks have been started again.
  int attempt() const { return attempt_; }
  /// How many ranks of this attempt run.
  int left() const { return left_; }
  /// Whether a rank has stopped at a signal that was passed on.
  bool obeyed() const { return obeyed_; }
  bool running(int rank) const { return running_[static_cast<size_t>(rank)]; }
  /// The first rank of this attempt that ended badly by itself, or null.
  const Failure* failure() const { return failure_ ? &*failure_ : nullptr; }
  /// The ranks that ended badly before the others were told to stop.
  const std::vector<int>& failed() const { return failed_; }
  /// The ranks that ended badly after that, before they were told to stop.
  const std::vector<int>& followed() const { return followed_; }
  /// Whether the failure is followed by another attempt.
  bool will_restart() const;
  int exit_code() const;

 private:
  enum class Phase { Ready, Asking, Running, Listening, Stopping, Killing, Over };
  Step conclude();
  Step start();
  void begin_attempt(int attempt);
  bool troubled() const { return failure_ || elsewhere_; }

  Plan plan_;
  Phase phase_ = Phase::Ready;
  int attempt_ = 0;
  int left_ = 0;
  std::vector<bool> running_;
  std::optional<Failure> failure_;
  std::optional<int> elsewhere_;
  bool invited_ = false;
  std::optional<int> told_code_;
  std::vector<int> failed_;
  std::vector<int> followed_;
  /// The signal that asked to stop, or 0.
  int asked_ = 0;
  bool hurry_ = false;
  /// Whether a signal was passed on in this attempt, and a rank has stopped at it.
  bool passed_on_ = false;
  bool obeyed_ = false;
  bool abandoned_ = false;
  /// The ranks that ended after the wish to stop, and those that did so with
  /// kResumable.
  int answers_ = 0;
  int resumable_ = 0;
  std::optional<Time> wake_;
};

/// The exit code of a program that was stopped and can go on from what it saved.
inline constexpr int kResumable = 75;

}  // namespace trireme::launch
