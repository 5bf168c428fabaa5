#include "trireme/dp/buffers.h"

#include "trireme/core/error.h"
#include "trireme/dp/verify.h"

namespace trireme::dp {

void sync_buffers(
    const comm::Group& group,
    const NamedBuffers& buffers,
    const BufferOptions& options,
    int source) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, buffer] : buffers)
    tensors.push_back(buffer);
  switch (options.mode) {
    case BufferMode::Off:
      return;
    case BufferMode::Broadcast:
      return broadcast_values(group, tensors, source);
    case BufferMode::Average:
      return average_values(group, tensors);
    case BufferMode::Hook:
      return options.hook(group, buffers);
  }
}

}  // namespace trireme::dp
