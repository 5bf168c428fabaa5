#include "trireme/launch/job.h"

#include <csignal>
#include <utility>

namespace trireme::launch {
namespace {

// After SIGKILL only a process that hangs in the kernel is still there, and no waiting
// helps against that.
constexpr auto kKillLimit = std::chrono::seconds(10);

}  // namespace

Job::Job(const Plan& plan) : plan_(plan), running_(static_cast<size_t>(plan.ranks)) {}

Step Job::next(Time now) {
  switch (phase_) {
    case Phase::Ready:
      if (asked_ != 0 || abandoned_)
        return conclude();
      if (!plan_.led)
        return start();
      phase_ = Phase::Asking;
      return {.kind = Step::Kind::Ask};
    case Phase::Asking:
      if (asked_ != 0 || abandoned_ || told_code_ || !plan_.led)
        return conclude();
      return std::exchange(invited_, false) ? start() : Step{};
    case Phase::Running:
      if (left_ == 0)
        return conclude();
      if (asked_ == 0 && !troubled() && !obeyed_ && !abandoned_)
        return {};
      phase_ = Phase::Listening;
      wake_ = now + (troubled() ? plan_.listen : plan_.grace);
      return next(now);
    case Phase::Listening:
      if (left_ == 0)
        return conclude();
      if (now < *wake_ && asked_ == 0 && !abandoned_)
        return {};
      phase_ = Phase::Stopping;
      wake_ = now + plan_.grace;
      return {.kind = Step::Kind::Signal, .signal = asked_ != 0 ? asked_ : SIGTERM};
    case Phase::Stopping:
      if (left_ == 0)
        return conclude();
      if (now < *wake_ && !hurry_ && !abandoned_)
        return {};
      phase_ = Phase::Killing;
      wake_ = now + kKillLimit;
      return {.kind = Step::Kind::Signal, .signal = SIGKILL};
    case Phase::Killing:
      return left_ == 0 || now >= *wake_ ? conclude() : Step{};
    case Phase::Over:
      break;
  }
  return {.kind = Step::Kind::Finish};
}

Step Job::start() {
  phase_ = Phase::Running;
  running_.assign(running_.size(), true);
  left_ = plan_.ranks;
  return {.kind = Step::Kind::Start};
}

bool Job::will_restart() const {
  return troubled() && asked_ == 0 && !obeyed_ && !abandoned_ &&
         attempt_ < plan_.max_restarts;
}

Step Job::conclude() {
  wake_.reset();
  const bool ask = plan_.led && asked_ == 0 && !abandoned_ && !told_code_;
  if (!(ask || will_restart()) || left_ > 0) {
    phase_ = Phase::Over;
    return {.kind = Step::Kind::Finish};
  }
  phase_ = Phase::Ready;
  if (!ask)
    begin_attempt(attempt_ + 1);
  return next({});
}

void Job::begin_attempt(int attempt) {
  attempt_ = attempt;
  failure_.reset();
  elsewhere_.reset();
  failed_.clear();
  followed_.clear();
  passed_on_ = false;
}

void Job::go(int attempt, int max_restarts) {
  begin_attempt(attempt);
  plan_.max_restarts = max_restarts;
  invited_ = true;
}

void Job::over(int code) {
  told_code_ = code;
}

void Job::failed_elsewhere(int code) {
  if (!troubled())
    elsewhere_ = code;
}

void Job::leaderless(int code) {
  failed_elsewhere(code);
  plan_.led = false;
  plan_.max_restarts = 0;
}

void Job::ended(int rank, const Ending& ending) {
  running_[static_cast<size_t>(rank)] = false;
  --left_;
  // Whoever is told to stop by us may answer so, too, but then we know.
  const bool untold = phase_ == Phase::Running || phase_ == Phase::Listening;
  if (asked_ != 0) {
    ++answers_;
    resumable_ += ending.exit_code == kResumable ? 1 : 0;
  } else if (passed_on_ && untold && ending.exit_code == kResumable) {
    obeyed_ = true;
  } else if (
      !ending.good() && !elsewhere_ &&
      (phase_ == Phase::Running || (untold && !failure_))) {
    if (!failure_)
      failure_ = {.rank = rank, .ending = ending, .last_lines = {}};
    failed_.push_back(rank);
  } else if (untold && !ending.good()) {
    followed_.push_back(rank);
  }
}

void Job::stop(int signal) {
  hurry_ = asked_ != 0;
  if (asked_ == 0)
    asked_ = signal;
}

void Job::abandon() {
  abandoned_ = true;
}

int Job::exit_code() const {
  if (told_code_)
    return *told_code_;
  // A rank that failed before anybody asked to stop is the better answer.
  if (failure_)
    return failure_->ending.shell_code();
  if (elsewhere_)
    return *elsewhere_;
  if (asked_ != 0)
    return answers_ > 0 && resumable_ == answers_ ? kResumable : 128 + asked_;
  if (obeyed_)
    return kResumable;
  return abandoned_ ? 1 : 0;
}

}  // namespace trireme::launch
