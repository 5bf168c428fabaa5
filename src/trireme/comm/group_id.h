// Numbers that tell the groups of a world apart.
#pragma once
#include <atomic>
#include <cstdint>

#include "trireme/core/error.h"

namespace trireme::comm {

/// Gives the groups that a rank leads (is rank 0 of) their numbers, which it then tells
/// the other members: no two groups of a world have the same, and 0 is the world
/// itself. Thread-safe.
class GroupIds {
 public:
  GroupIds(int rank, int world_size)
      : rank_(static_cast<uint32_t>(rank)), size_(static_cast<uint32_t>(world_size)) {}
  uint32_t next() {
    return rank_ + 1 + size_ * led_.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  uint32_t rank_, size_;
  std::atomic<uint32_t> led_{0};
};

/// NotSupported unless this is the number of the world's own group; InvalidArgument if
/// that was renewed before.
inline void check_renewable(uint32_t group, bool renewed) {
  if (group != 0)
    throw NotSupported(
        "[comm] expected the world's own group to be renewed, got one made by split(); "
        "renew that one, and split it again");
  if (renewed)
    throw InvalidArgument(
        "[comm] expected a group of the newest generation to renew, got one that was "
        "renewed already; use what renew() gave");
}

}  // namespace trireme::comm
