// What a module can know of the microbatch that it computes, and add to its loss.
#pragma once
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trireme::pipe {

/// Where in a step a stage is.
struct ForwardContext {
  int stage = 0;
  int microbatch = 0;
  int microbatches = 0;
  /// As random numbers count it: Batch::step, or the steps of the pipeline.
  int64_t step = 0;
};

/// That of the forward, or backward, that runs on this thread; null outside of a
/// pipeline's step. A block that backward computes again sees what it saw the first
/// time.
///
///     if (const auto* now = pipe::forward_context()) log(now->step, now->microbatch);
const ForwardContext* forward_context();

/// Adds an auxiliary loss of this microbatch, from within the forward of any stage or
/// the loss: say, how evenly experts are used. It has one element, and its gradient has
/// the same weight as that of the microbatch's loss. StepResult::auxiliary has its
/// value. InvalidArgument outside of a stage's forward, so also where backward computes
/// a block again: return it from the block and add it outside.
void add_loss(const at::Tensor& loss);

/// Sets the context of this thread while it lives; `losses` (may be null) gets what
/// add_loss() adds. For the runtime.
class ForwardScope {
 public:
  explicit ForwardScope(
      const ForwardContext& context, std::vector<at::Tensor>* losses = nullptr);
  ~ForwardScope();
  ForwardScope(const ForwardScope&) = delete;
  ForwardScope& operator=(const ForwardScope&) = delete;

 private:
  friend const ForwardContext* forward_context();
  friend void add_loss(const at::Tensor& loss);

  ForwardContext context_;
  std::vector<at::Tensor>* losses_;
  ForwardScope* outer_;
};

}  // namespace trireme::pipe
