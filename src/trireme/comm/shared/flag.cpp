#include "trireme/comm/shared/flag.h"

#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trireme/comm/wait_budget.h"

namespace trireme::comm {
namespace {

static_assert(std::atomic<uint32_t>::is_always_lock_free);

// Not FUTEX_PRIVATE: the waiter may be in another process.
void futex_wait(
    std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds limit) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
  timespec time{};
  time.tv_sec = seconds.count();
  time.tv_nsec = (limit - seconds).count();
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

bool spin(
    const Flag& flag,
    uint32_t target,
    std::chrono::nanoseconds budget,
    const WaitGuard& guard) {
  constexpr int kLooksPerClock =
      16;  // reading the clock costs as much as several looks
  // An answer that takes longer than this may be waiting for our own core: the
  // scheduler can put two ranks on one, however many there are, and leave them there.
  constexpr std::chrono::microseconds kAlone{3};
  const auto start = Deadline::Clock::now();
  auto now = start;
  do {
    for (int i = 0; i < kLooksPerClock; ++i) {
      if (flag.reached(target))
        return true;
      relax();
    }
    if (now - start > kAlone) {
      guard.spinning();
      ::sched_yield();
    }
    now = Deadline::Clock::now();
  } while (now - start < budget);
  return false;
}

bool look_between_others(
    const Flag& flag, uint32_t target, std::chrono::nanoseconds budget) {
  const auto start = Deadline::Clock::now();
  do {
    ::sched_yield();
    if (flag.reached(target))
      return true;
  } while (Deadline::Clock::now() - start < budget);
  return false;
}

// Who has waited for long wakes less often: many may wait, and each wake costs.
std::chrono::milliseconds guard_interval(int looks) {
  constexpr int kEager = 10;
  return looks < kEager ? kGuardInterval : kPatientInterval;
}

/// Counts the sleeper in while it may sleep, so that posters know whom to wake.
class Sleeper {
 public:
  explicit Sleeper(Flag& flag) : flag_(flag) { flag_.sleepers.fetch_add(1); }
  ~Sleeper() { flag_.sleepers.fetch_sub(1); }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

 private:
  Flag& flag_;
};

}  // namespace

void Flag::post(uint32_t next) {
  // Both sequentially consistent, like the sleeper's fetch_add and load: either the
  // poster sees the sleeper, or the sleeper sees the new value.
  value.store(next, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0)
    futex_wake_all(value);
}

void Flag::add_one() {
  value.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) != 0)
    futex_wake_all(value);
}

bool wait_slice(Flag& flag, uint32_t target, std::chrono::nanoseconds slice) {
  Sleeper sleeper(flag);
  const uint32_t seen = flag.value.load(std::memory_order_seq_cst);
  if (static_cast<int32_t>(seen - target) >= 0)
    return true;
  futex_wait(flag.value, seen, slice);
  return flag.reached(target);
}

bool wait_until(
    Flag& flag,
    uint32_t target,
    const WaitPolicy& policy,
    const WaitGuard& guard,
    const Deadline& deadline) {
  if (flag.reached(target))
    return true;
  if (policy.spin.count() > 0 && spin(flag, target, policy.spin, guard))
    return true;
  if (policy.yield.count() > 0 && look_between_others(flag, target, policy.yield))
    return true;
  WaitBudget budget(deadline);
  for (int looks = 0;; ++looks) {
    const auto slice =
        std::min<std::chrono::nanoseconds>(budget.left(), guard_interval(looks));
    if (wait_slice(flag, target, slice))
      return true;
    if (const std::exception_ptr trouble = guard.trouble()) {
      if (flag.reached(target))
        return true;
      std::rethrow_exception(trouble);
    }
    if (!budget.charge())
      return flag.reached(target);
  }
}

}  // namespace trireme::comm
