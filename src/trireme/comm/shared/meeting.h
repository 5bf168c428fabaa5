// A point that ranks come to, again and again, and go on from together.
#pragma once
#include <atomic>
#include <cstdint>

#include "trireme/comm/shared/flag.h"

namespace trireme::comm {

/// Counts arrivals in shared memory. Whether a step took place is decided at one place,
/// the counter: a rank that gives up takes its arrival back, and can do so only while
/// somebody is still missing. So either all ranks pass a step, or none does.
struct alignas(128) Meeting {
  std::atomic<uint32_t> arrivals{0};
  /// The last step that everybody has come to.
  Flag step;

  /// Comes to `number` (they follow one another, and wrap around) as one of `size`
  /// ranks. True for the last one, which lets the others go.
  bool arrive(uint32_t number, int size) {
    const uint32_t everybody = number * static_cast<uint32_t>(size);
    if (arrivals.fetch_add(1, std::memory_order_acq_rel) + 1 != everybody)
      return false;
    step.post(number);
    return true;
  }
  /// Takes the arrival back: nobody passes this step any more. False if all have come.
  bool withdraw(uint32_t number, int size) {
    const uint32_t everybody = number * static_cast<uint32_t>(size);
    uint32_t now = arrivals.load(std::memory_order_acquire);
    // Once all have come, some may be at the next step already.
    while (static_cast<int32_t>(now - everybody) < 0)
      if (arrivals.compare_exchange_weak(
              now, now - 1, std::memory_order_acq_rel, std::memory_order_acquire))
        return true;
    return false;
  }
};

}  // namespace trireme::comm
