// Sleeping until a word of memory changes: what std::atomic::wait lacks is a limit.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

#include "trireme/core/deadline.h"

namespace trireme::rpc {

/// Waits until `word` is no longer `seen`; false if the deadline comes first. Who
/// changes the word calls wake_one() or wake_all() afterwards.
///
///     std::atomic<std::uint32_t> done{0};
///     …  done.store(1); wake_all(done);                  // one thread
///     …  if (!wait_while(done, 0, deadline)) give_up();  // the others
bool wait_while(
    const std::atomic<std::uint32_t>& word,
    std::uint32_t seen,
    const Deadline& deadline);

/// The same for a limit of microseconds. It may return early.
void wait_a_moment(
    const std::atomic<std::uint32_t>& word,
    std::uint32_t seen,
    std::chrono::nanoseconds limit);

/// The same without a limit: for words that change by a deadline of their own.
void wait_while(const std::atomic<std::uint32_t>& word, std::uint32_t seen);

/// Wakes one that sleeps on the word. A system call: leave it out where nobody sleeps.
/// The word may be gone already: then nobody is woken, or somebody for no reason.
void wake_one(const std::atomic<std::uint32_t>& word);

/// Wakes all that sleep on the word.
void wake_all(const std::atomic<std::uint32_t>& word);

/// While one lives, wake_all_later() on its thread wakes nobody yet: one that waits for
/// many words, one after the other, then finds the next ones changed when it wakes.
/// Whatever waits wakes them first: wait_while(), and Blocking for all else.
///
///     LateWakes late;
///     for (auto& one : finished) one.publish();
class LateWakes {
 public:
  LateWakes();
  ~LateWakes();
  LateWakes(const LateWakes&) = delete;
  LateWakes& operator=(const LateWakes&) = delete;
};
void wake_all_later(const std::atomic<std::uint32_t>& word);
/// Wakes now whom wake_all_later() has kept for later.
void wake_late();

/// How long it pays to look again and again before going to sleep: nothing where the
/// one that is waited for may need the core.
std::chrono::microseconds spin_time();

/// Tells the core that this thread only looks.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Looks again and again until `done()` or the time is over; whether it was done.
template <class Done>
bool spin_until(std::chrono::nanoseconds time, const Done& done) {
  // Reading the clock costs as much as several looks.
  constexpr int kLooksPerClock = 16;
  if (time.count() <= 0)
    return done();
  const auto end = Deadline::Clock::now() + time;
  do {
    for (int i = 0; i < kLooksPerClock; ++i) {
      if (done())
        return true;
      relax();
    }
  } while (Deadline::Clock::now() < end);
  return done();
}

}  // namespace trireme::rpc
