// SyncBatchNorm: batch normalisation over the batches of all ranks.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <optional>

#include <ATen/core/Tensor.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include "trireme/comm/group.h"
#include "trireme/dp/sync_batch_norm_function.h"

namespace trireme::dp {

struct SyncBatchNormOptions {
  /// C of inputs (N, C), (N, C, L), (N, C, H, W) or (N, C, D, H, W).
  int64_t num_features = 0;
  double eps = 1e-5;
  /// How much of a running statistic a batch replaces; none: they are the average of
  /// all batches so far.
  std::optional<double> momentum = 0.1;
  /// Whether to learn a weight and a bias for each channel.
  bool affine = true;
  /// Whether to keep running statistics, which eval() then normalises with.
  bool track_running_stats = true;
  /// The ranks that share a batch. None: this rank alone, as a BatchNorm; set_group()
  /// and convert_sync_batch_norm() can give it one later.
  comm::Group group;
};

/// What a layer starts with; undefined where its options want none.
struct SyncBatchNormTensors {
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor running_mean;
  at::Tensor running_var;
  at::Tensor num_batches_tracked;
};

/// In training, normalises with mean and variance of all ranks' batches, as one
/// BatchNorm would that saw them as one batch: outputs, gradients and running
/// statistics are the same, and the running statistics are equal on all ranks bit for
/// bit.
///
///     dp::SyncBatchNorm norm(dp::SyncBatchNormOptions{
///         .num_features = 64, .group = world});
///     y = norm->forward(x);
///
/// Every forward in training is a collective call (one all_gather), and so is every
/// backward that reaches an input with a gradient (one all_reduce): all ranks must make
/// them in the same order. Batches may differ in size, and a rank may have none: it
/// passes a tensor with N = 0. One value a channel in all is InvalidArgument on all
/// ranks, as in torch. In eval nothing is shared; without running statistics, each rank
/// uses those of its own batch then. A block that is computed again for backward talks
/// again, and updates the running statistics again.
///
/// float16 and bfloat16 are computed in float32. Gradients of weight and bias are those
/// of this rank's samples: summing or averaging them is left to whoever does it for all
/// parameters. First derivatives only. Names of parameters and buffers are those of
/// torch::nn::BatchNorm2d, so archives fit both.
class SyncBatchNormImpl : public torch::nn::Cloneable<SyncBatchNormImpl> {
 public:
  explicit SyncBatchNormImpl(const SyncBatchNormOptions& options);
  /// A layer that goes on with these tensors, which it shares.
  SyncBatchNormImpl(
      const SyncBatchNormOptions& options, const SyncBatchNormTensors& tensors);

  void reset() override;
  void pretty_print(std::ostream& stream) const override;
  at::Tensor forward(const at::Tensor& x);

  const SyncBatchNormOptions& options() const { return options_; }
  /// Shares batches with these ranks from now on.
  void set_group(const comm::Group& group) { options_.group = group; }

  // Undefined where the options want none, as in torch.
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor running_mean;
  at::Tensor running_var;
  at::Tensor num_batches_tracked;

 private:
  void take(const SyncBatchNormTensors& tensors);
  void check_input(const at::Tensor& x) const;
  at::Tensor forward_alone(const at::Tensor& x) const;
  void track(const BatchStatistics& statistics);

  SyncBatchNormOptions options_;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace trireme::dp
