#include "trireme/dp/sync_batch_norm.h"

#include <ostream>

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "trireme/core/error.h"
#include "trireme/dp/sync_batch_norm_function.h"

namespace trireme::dp {
namespace {

void check(const SyncBatchNormOptions& options) {
  if (options.num_features <= 0)
    throw InvalidArgument(text(
        "[dp] expected a positive number of features for SyncBatchNorm, got ",
        options.num_features,
        "; it is dim 1 of the inputs"));
  if (!(options.eps >= 0))
    throw InvalidArgument(text(
        "[dp] expected an eps of 0 or more for SyncBatchNorm, got ",
        options.eps,
        "; it is added to the variance"));
  if (options.momentum && !(*options.momentum >= 0 && *options.momentum <= 1))
    throw InvalidArgument(text(
        "[dp] expected a momentum from 0 to 1 for SyncBatchNorm, got ",
        *options.momentum,
        "; it is the share of the running statistics that a batch replaces"));
}

SyncBatchNormTensors fresh_tensors(const SyncBatchNormOptions& options) {
  const int64_t channels = options.num_features;
  SyncBatchNormTensors tensors;
  if (options.affine) {
    tensors.weight = at::ones({channels}).set_requires_grad(true);
    tensors.bias = at::zeros({channels}).set_requires_grad(true);
  }
  if (options.track_running_stats) {
    tensors.running_mean = at::zeros({channels});
    tensors.running_var = at::ones({channels});
    tensors.num_batches_tracked = at::zeros({}, at::kLong);
  }
  return tensors;
}

at::Tensor in_type(at::ScalarType type, const at::Tensor& tensor) {
  return tensor.defined() ? tensor.to(type) : tensor;
}

/// In float64, since some layers keep their statistics in a type of few digits.
void replace_share(at::Tensor& running, const at::Tensor& batch, double share) {
  running.copy_(running.to(at::kDouble).lerp_(batch.to(running.device()), share));
}

/// A single value is its own mean, so nothing would be left of it.
void refuse_one_value(const at::Tensor& x, int64_t count) {
  if (count == 1)
    throw InvalidArgument(text(
        "[dp] expected more than one value a channel, on all ranks together, to "
        "normalise a batch with its own statistics, got one (here the shape is ",
        x.sizes(),
        "); use larger batches, or eval() with running statistics"));
}

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(const SyncBatchNormOptions& options)
    : options_(options) {
  check(options);
  take(fresh_tensors(options));
}

SyncBatchNormImpl::SyncBatchNormImpl(
    const SyncBatchNormOptions& options, const SyncBatchNormTensors& tensors)
    : options_(options) {
  check(options);
  if (options.affine != tensors.weight.defined() ||
      options.affine != tensors.bias.defined() ||
      options.track_running_stats != tensors.running_mean.defined() ||
      options.track_running_stats != tensors.running_var.defined() ||
      options.track_running_stats != tensors.num_batches_tracked.defined())
    throw InvalidArgument(
        "[dp] expected the tensors that the options of SyncBatchNorm ask for, got "
        "others; give weight and bias if it is affine, and the running statistics if "
        "it tracks them");
  take(tensors);
}

void SyncBatchNormImpl::reset() {
  take(fresh_tensors(options_));
}

void SyncBatchNormImpl::take(const SyncBatchNormTensors& tensors) {
  weight = tensors.weight;
  bias = tensors.bias;
  running_mean = tensors.running_mean;
  running_var = tensors.running_var;
  num_batches_tracked = tensors.num_batches_tracked;
  if (options_.affine) {
    register_parameter("weight", weight, weight.requires_grad());
    register_parameter("bias", bias, bias.requires_grad());
  }
  if (options_.track_running_stats) {
    register_buffer("running_mean", running_mean);
    register_buffer("running_var", running_var);
    register_buffer("num_batches_tracked", num_batches_tracked);
  }
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "trireme::dp::SyncBatchNorm(" << options_.num_features
         << ", eps=" << options_.eps << ", momentum=";
  if (options_.momentum)
    stream << *options_.momentum;
  else
    stream << "None";
  stream << ", affine=" << options_.affine
         << ", track_running_stats=" << options_.track_running_stats
         << ", ranks=" << (options_.group ? options_.group.size() : 1) << ')';
}

at::Tensor SyncBatchNormImpl::forward(const at::Tensor& x) {
  check_input(x);
  if (!is_training())
    return forward_alone(x);
  const BatchStatistics statistics = batch_statistics(x, options_.group);
  refuse_one_value(x, statistics.count);
  if (options_.track_running_stats)
    track(statistics);
  return normalize(
      x,
      statistics,
      {.weight = weight, .bias = bias, .eps = options_.eps, .group = options_.group});
}

void SyncBatchNormImpl::check_input(const at::Tensor& x) const {
  if (!x.defined() || !x.is_floating_point() || x.dim() < 2 || x.dim() > 5 ||
      x.size(1) != options_.num_features)
    throw InvalidArgument(text(
        "[dp] expected a floating point input of 2 to 5 dims with ",
        options_.num_features,
        " channels in dim 1 for SyncBatchNorm, got ",
        x.defined() ? text(x.scalar_type(), " of the shape ", x.sizes())
                    : "an undefined tensor",
        "; make the layer with the channels of the layer before it"));
}

at::Tensor SyncBatchNormImpl::forward_alone(const at::Tensor& x) const {
  if (!options_.track_running_stats)
    refuse_one_value(x, x.numel() / options_.num_features);
  const at::ScalarType type = compute_type(x.scalar_type());
  return at::batch_norm(
             x.to(type),
             in_type(type, weight),
             in_type(type, bias),
             in_type(type, running_mean),
             in_type(type, running_var),
             /*training=*/!options_.track_running_stats,
             /*momentum=*/0,
             options_.eps,
             /*cudnn_enabled=*/true)
      .to(x.scalar_type());
}

void SyncBatchNormImpl::track(const BatchStatistics& statistics) {
  const c10::NoGradGuard no_grad;
  num_batches_tracked += 1;
  if (statistics.count == 0)
    return;
  const double share =
      options_.momentum ? *options_.momentum : 1 / num_batches_tracked.item<double>();
  const auto count = static_cast<double>(statistics.count);
  replace_share(running_mean, statistics.mean, share);
  replace_share(running_var, statistics.variance * (count / (count - 1)), share);
}

}  // namespace trireme::dp
