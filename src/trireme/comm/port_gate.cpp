#include "trireme/comm/port_gate.h"

#include "trireme/comm/wait_budget.h"

namespace trireme::comm {
namespace {

constexpr std::chrono::milliseconds kLook{20};

/// Counts who sleeps, so that a holder without company need not wake anybody.
class Counted {
 public:
  explicit Counted(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int>& count_;
};

}  // namespace

bool PortGate::take_by(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  const Counted sleeper(sleepers_);
  WaitBudget budget(deadline);
  while (!take()) {
    changed_.wait_for(lock, std::min<Deadline::Clock::duration>(budget.left(), kLook));
    if (!budget.charge())
      return take();
  }
  return true;
}

bool PortGate::take_unless_waiting() {
  std::unique_lock lock(mutex_);
  const Counted sleeper(sleepers_);
  while (!take()) {
    if (state_.load() == State::Waiting)
      return false;
    changed_.wait_for(lock, kLook);
  }
  return true;
}

// All sequentially consistent: either the sleeper sees the new state, or we see it.
void PortGate::set(State state) {
  state_.store(state);
  if (sleepers_.load() == 0)
    return;
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

}  // namespace trireme::comm
