// Optimizer steps inside backward: each bucket's parameters right after its reduction.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include "trireme/dp/comm_hook.h"

namespace trireme::dp {

/// Makes the optimizer of one parameter.
using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(
    std::vector<at::Tensor> parameters)>;

/// Steps parameters as soon as their gradients are reduced, while backward goes on with
/// others, and drops the gradients: the step is hidden behind backward, and gradients
/// need no memory between steps. Every parameter has an optimizer of its own. What
/// comes out is what one optimizer for all would give after backward, to the bit, for
/// all that treat each parameter by itself (SGD, Adam, AdamW and the like).
///
/// Only the given parameters are stepped; others keep their gradients for an optimizer
/// outside. A parameter is stepped when nobody in the graph needs it any more. A graph
/// that still does, because it got it through detach(), says so by torch's error about
/// tensors that were modified in place.
///
/// Backwards under no_sync() add up gradients and step nothing; the one after them
/// steps with the reduced sum, which is right. But without no_sync() every backward is
/// a step, and norms are known too late to clip. A parameter without a gradient on any
/// rank is left alone. With mixed_precision the full values are stepped, and gradients
/// of a gradient_dtype are used as they were reduced, without rounding. Parameters in
/// `delay` pass no hooks, so that they are left to an optimizer outside.
class OptimizerHook final : public CommHook {
 public:
  OptimizerHook(const std::vector<at::Tensor>& parameters, const MakeOptimizer& make);

  std::string name() const override;
  void run(GradBucket& bucket, const Next& next) override { next(bucket); }
  void after(GradBucket& bucket) override;

  /// All optimizers, in the order of the parameters: to set learning rates, to save and
  /// to load. Between backwards alone.
  ///
  ///     for (auto& optimizer : hook->optimizers())
  ///       optimizer->param_groups()[0].options().set_lr(0.01);
  const std::vector<std::unique_ptr<torch::optim::Optimizer>>& optimizers() const {
    return optimizers_;
  }

 private:
  void step(size_t index, const GradBucket::Entry& entry);

  std::vector<at::Tensor> parameters_;
  /// The same memory under another handle: `.grad` of the parameter itself belongs to
  /// the thread of backward.
  std::vector<at::Tensor> handles_;
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers_;
};

/// Takes what the optimizer's own constructor takes.
///
///     auto hook = dp::make_optimizer_hook<torch::optim::AdamW>(
///         net->parameters(), torch::optim::AdamWOptions(1e-3));
///     dp::DataParallel model(net, group, {.hooks = {hook}});
template <class Optimizer, class Options>
std::shared_ptr<OptimizerHook> make_optimizer_hook(
    const std::vector<at::Tensor>& parameters, Options options) {
  return std::make_shared<OptimizerHook>(
      parameters, [options](std::vector<at::Tensor> one) {
        return std::make_unique<Optimizer>(std::move(one), options);
      });
}

}  // namespace trireme::dp
