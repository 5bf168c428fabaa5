// Waiting for MPI, which can only be asked again and again.
#pragma once
#include <algorithm>
#include <chrono>
#include <thread>

#include "trireme/comm/wait_budget.h"
#include "trireme/core/deadline.h"

namespace trireme::comm {

/// How a rank waits: it asks without pause for a while, then lets others run between
/// two looks, and at last sleeps between them.
struct PollPolicy {
  std::chrono::nanoseconds spin = std::chrono::microseconds(50);
  std::chrono::microseconds yield{1000};
  std::chrono::microseconds sleep{50};
};

/// The policy for this many ranks on this host: asking without pause pays only where
/// every rank has a core.
PollPolicy poll_policy(int local_ranks);

/// Calls `poll` until it gives true, or gives false when the deadline has passed. Asks
/// at least once.
template <class Poll>
bool poll_until(const Poll& poll, const PollPolicy& policy, const Deadline& deadline) {
  const auto start = Deadline::Clock::now();
  WaitBudget budget(deadline);
  while (!poll()) {
    const auto now = Deadline::Clock::now();
    const auto waited = now - start;
    const bool in_time = budget.charge(now);
    if (waited < policy.spin)
      continue;
    if (!in_time)
      return poll();  // we may have been asleep for longer than was left
    if (waited < policy.yield)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(policy.sleep);
  }
  return true;
}

}  // namespace trireme::comm
