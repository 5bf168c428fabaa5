// Keeps the buffers of a model equal on all ranks.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/comm/group.h"

namespace trireme::dp {

using NamedBuffers = std::vector<std::pair<std::string, at::Tensor>>;

/// How buffers are made equal.
enum class BufferMode {
  Off,
  /// All take those of one rank.
  Broadcast,
  /// All take the mean of all; integers come from rank 0.
  Average,
  /// A function of yours does it.
  Hook,
};

/// What is done with buffers, and when.
struct BufferOptions {
  BufferMode mode = BufferMode::Broadcast;
  /// Right after the forward that changed them, instead of before the next one.
  bool after_forward = false;
  /// Whose buffers count.
  int source = 0;
  std::function<void(const comm::Group&, const NamedBuffers&)> hook{};
};

/// Carries it out once. Collective.
void sync_buffers(
    const comm::Group& group,
    const NamedBuffers& buffers,
    const BufferOptions& options,
    int source);

}  // namespace trireme::dp
