// Stages, ranks and microbatches are ints, as users give them; vectors count in size_t.
#pragma once
#include <cstddef>
#include <cstdint>

namespace trireme::sched {

constexpr size_t index(int64_t value) {
  return static_cast<size_t>(value);
}

}  // namespace trireme::sched
