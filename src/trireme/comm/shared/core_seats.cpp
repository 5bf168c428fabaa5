#include "trireme/comm/shared/core_seats.h"

#include <sched.h>

namespace trireme::comm {
namespace {

constexpr std::chrono::milliseconds kInterval{5};

}  // namespace

void CoreSeats::settle() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock())
    return;
  const int core = ::sched_getcpu();
  seat_of_(rank_).store(core, std::memory_order_relaxed);
  const auto now = std::chrono::steady_clock::now();
  if (now < next_ || !crowded(core))
    return;
  next_ = now + kInterval;
  move();
  seat_of_(rank_).store(::sched_getcpu(), std::memory_order_relaxed);
}

// Only the higher rank of two moves, or both would.
bool CoreSeats::crowded(int core) const {
  for (int peer = 0; peer < rank_; ++peer)
    if (seat_of_(peer).load(std::memory_order_relaxed) == core)
      return true;
  return false;
}

void CoreSeats::move() const {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return;
  cpu_set_t free = allowed;
  for (int peer = 0; peer < size_; ++peer) {
    const int core = seat_of_(peer).load(std::memory_order_relaxed);
    if (core >= 0 && core < CPU_SETSIZE)
      CPU_CLR(core, &free);
  }
  if (CPU_COUNT(&free) == 0)
    return;
  // The first call moves the thread, the second lets the scheduler move it again.
  if (::sched_setaffinity(0, sizeof free, &free) == 0)
    ::sched_setaffinity(0, sizeof allowed, &allowed);
}

}  // namespace trireme::comm
