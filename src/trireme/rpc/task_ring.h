// The queue of a pool: private to rpc.
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

#include "trireme/rpc/executor.h"

namespace trireme::rpc {

/// First in, first out. Grows by doubling and keeps its memory.
class TaskRing {
 public:
  std::size_t size() const { return size_; }
  void push(Task&& task) {
    if (size_ == slots_.size())
      grow();
    slots_[(first_ + size_) & (slots_.size() - 1)] = std::move(task);
    ++size_;
  }
  /// There must be one.
  Task pop() {
    Task task = std::move(slots_[first_]);
    first_ = (first_ + 1) & (slots_.size() - 1);
    --size_;
    return task;
  }

 private:
  void grow() {
    constexpr std::size_t kLeast = 16;  // a power of two, as all sizes are
    std::vector<Task> slots(slots_.empty() ? kLeast : slots_.size() * 2);
    for (std::size_t i = 0; i < size_; ++i)
      slots[i] = std::move(slots_[(first_ + i) & (slots_.size() - 1)]);
    slots_ = std::move(slots);
    first_ = 0;
  }

  std::vector<Task> slots_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace trireme::rpc
