// A counter that ranks wait for: look a little, then sleep on a futex. Works between
// threads and between processes that map the same memory.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>

#include "trireme/core/deadline.h"

namespace trireme::comm {

/// A monotonic counter in shared memory, alone in its cache line pair (the prefetcher
/// of current processors fetches lines in pairs).
struct alignas(128) Flag {
  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> sleepers{0};

  /// Whether the counter has come to `target`, also across its wrap-around.
  bool reached(uint32_t target) const {
    return static_cast<int32_t>(value.load(std::memory_order_acquire) - target) >= 0;
  }
  /// Sets the counter and wakes who sleeps on it. What was written before is visible to
  /// whoever sees the new value.
  void post(uint32_t next);
  /// Adds one and wakes; safe from several threads at once. Touches the flag no more
  /// once the count has risen (but to wake), so that who sees it may free the memory.
  void add_one();
};

/// Says why waiting makes no sense any more: the world was aborted, a peer is dead.
class WaitGuard {
 public:
  virtual ~WaitGuard() = default;
  /// Null while all is well; otherwise what the waiter throws.
  virtual std::exception_ptr trouble() const = 0;
  /// Called while a waiter spins for longer than an answer takes from another core.
  virtual void spinning() const {}
};

/// How long a waiter looks again and again before it sleeps. Where every rank has a
/// core it spins; where ranks outnumber cores it lets others run between two looks, for
/// what it waits for may need its core, and to be woken takes longer.
struct WaitPolicy {
  std::chrono::nanoseconds spin{0};
  std::chrono::nanoseconds yield{0};
};

/// A sleeping waiter looks at its guard this often, and after some looks, when it is to
/// be a long wait, less often.
inline constexpr std::chrono::milliseconds kGuardInterval{20};
inline constexpr std::chrono::milliseconds kPatientInterval{60};

/// Waits until `flag` has come to `target`: true, or false when the deadline passed
/// first (wait_budget.h says what counts). Throws the guard's trouble, but never when
/// the flag is there: a peer may post and leave.
bool wait_until(
    Flag& flag,
    uint32_t target,
    const WaitPolicy& policy,
    const WaitGuard& guard,
    const Deadline& deadline);

/// Waits at most about `slice`, without a guard: for callers that watch several flags.
bool wait_slice(Flag& flag, uint32_t target, std::chrono::nanoseconds slice);

}  // namespace trireme::comm
