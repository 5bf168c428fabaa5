// Numbers that tell the groups of a world apart.
#pragma once
#include <atomic>
#include <cstdint>

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

}  // namespace trireme::comm
