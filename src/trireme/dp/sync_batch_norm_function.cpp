#include "trireme/dp/sync_batch_norm_function.h"

#include <string>
#include <tuple>
#include <utility>

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/autograd/node.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"

namespace trireme::dp {
namespace {

/// One row: the mean of each channel, its sum of squared distances, and the count.
at::Tensor own_row(const at::Tensor& x) {
  const int64_t channels = x.size(1);
  at::Tensor row = at::zeros({2 * channels + 1}, at::kDouble);
  if (x.numel() == 0)
    return row;
  const int64_t count = x.numel() / channels;
  const auto [mean, variance] =
      at::batch_norm_update_stats(to_compute_type(x), {}, {}, 0);
  row.narrow(0, 0, channels).copy_(mean);
  row.narrow(0, channels, channels).copy_(variance).mul_(count);
  row[2 * channels] = count;
  return row;
}

/// Everybody's rows, one below the other.
at::Tensor all_rows(const at::Tensor& row, const comm::Group& group) {
  if (!group || group.size() == 1)
    return row.unsqueeze(0);
  at::Tensor rows = at::empty({group.size(), row.size(0)}, row.options());
  comm::all_gather(group, rows, row);
  return rows;
}

}  // namespace

at::ScalarType compute_type(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

at::Tensor to_compute_type(const at::Tensor& x) {
  return x.detach()
      .to(compute_type(x.scalar_type()))
      .contiguous(x.suggest_memory_format());
}

BatchStatistics batch_statistics(const at::Tensor& x, const comm::Group& group) {
  const c10::NoGradGuard no_grad;
  const int64_t channels = x.size(1);
  const at::Tensor rows = all_rows(own_row(x), group);
  const at::Tensor counts = rows.narrow(1, 2 * channels, 1);
  const double count = counts.sum().item<double>();
  if (count == 0)
    return {
        .mean = at::zeros({channels}, at::kDouble),
        .variance = at::ones({channels}, at::kDouble)};
  const at::Tensor means = rows.narrow(1, 0, channels);
  const at::Tensor mean = means.mul(counts).sum(0).div_(count);
  // Distances from the common mean: those from a rank's own, and how far that one is.
  const at::Tensor squares =
      means.sub(mean).square_().mul_(counts).add_(rows.narrow(1, channels, channels));
  return {
      .mean = mean,
      .variance = squares.sum(0).div_(count),
      .count = static_cast<int64_t>(count)};
}

namespace {

using autograd::edge_list;
using autograd::variable_list;
using torch::autograd::SavedVariable;

/// Numbers of the channels, made to go with x.
at::Tensor like(const at::Tensor& x, const at::Tensor& channels) {
  return channels.defined() ? channels.detach().to(x.options()) : channels;
}

/// Sums over all values of a channel.
struct ChannelSums {
  at::Tensor gradient;
  at::Tensor gradient_times_normalized;
};

/// x normalised, scaled and shifted: one pass over memory. All in the type of x.
at::Tensor scaled(
    const at::Tensor& x,
    const BatchStatistics& statistics,
    const at::Tensor& weight,
    const at::Tensor& bias,
    double eps) {
  if (x.numel() == 0)
    return at::empty_like(x);
  // What torch does with running statistics is what is needed here with all ranks'.
  return std::get<0>(at::native_batch_norm(
      x,
      like(x, weight),
      like(x, bias),
      like(x, statistics.mean),
      like(x, statistics.variance),
      /*training=*/false,
      /*momentum=*/0,
      eps));
}

class SyncBatchNormBackward : public autograd::Node {
 public:
  SyncBatchNormBackward(
      edge_list edges,
      const at::Tensor& x,
      const BatchStatistics& statistics,
      const NormalizeOptions& options)
      : Node(std::move(edges)),
        x_(x, false),
        weight_(options.weight, false),
        bias_type_(type_of(options.bias)),
        statistics_(statistics),
        eps_(options.eps),
        group_(options.group) {}

  std::string name() const override { return "trireme::SyncBatchNormBackward"; }
  variable_list apply(variable_list&& gradients) override;
  void release_variables() override {
    x_.reset_data();
    weight_.reset_data();
  }

 private:
  static at::ScalarType type_of(const at::Tensor& tensor) {
    return tensor.defined() ? tensor.scalar_type() : at::kFloat;
  }
  ChannelSums own_sums(const at::Tensor& x, const at::Tensor& gradient) const;
  void sum_over_ranks(ChannelSums& sums) const;
  at::Tensor input_gradient(
      const at::Tensor& x,
      const at::Tensor& gradient,
      const at::Tensor& weight,
      const ChannelSums& sums) const;

  SavedVariable x_;
  SavedVariable weight_;
  at::ScalarType bias_type_;
  BatchStatistics statistics_;
  double eps_;
  comm::Group group_;
};

variable_list SyncBatchNormBackward::apply(variable_list&& gradients) {
  if (c10::GradMode::is_enabled())
    throw NotSupported(
        "[dp] expected a backward of SyncBatchNorm that is not differentiated again, "
        "got create_graph; run it without");
  const at::Tensor saved = x_.unpack(), weight = weight_.unpack();
  const at::Tensor x = to_compute_type(saved);
  const at::Tensor gradient =
      gradients[0].defined()
          ? to_compute_type(gradients[0]).contiguous(x.suggest_memory_format())
          : at::zeros_like(x);
  ChannelSums sums = own_sums(x, gradient);
  variable_list results(3);
  if (should_compute_output(1))
    results[1] = sums.gradient_times_normalized.to(weight.scalar_type());
  if (should_compute_output(2))
    results[2] = sums.gradient.to(bias_type_);
  if (should_compute_output(0)) {
    sum_over_ranks(sums);
    results[0] = input_gradient(x, gradient, weight, sums).to(saved.scalar_type());
  }
  return results;
}

ChannelSums SyncBatchNormBackward::own_sums(
    const at::Tensor& x, const at::Tensor& gradient) const {
  if (x.numel() == 0) {
    const at::Tensor none = at::zeros({x.size(1)}, x.options());
    return {none, none};
  }
  // With fixed statistics these sums are the gradients of bias and weight.
  const auto [of_input, of_weight, of_bias] = at::native_batch_norm_backward(
      gradient,
      x,
      /*weight=*/{},
      like(x, statistics_.mean),
      like(x, statistics_.variance),
      /*save_mean=*/{},
      /*save_invstd=*/{},
      /*train=*/false,
      eps_,
      {false, true, true});
  return {.gradient = of_bias, .gradient_times_normalized = of_weight};
}

void SyncBatchNormBackward::sum_over_ranks(ChannelSums& sums) const {
  at::Tensor both =
      at::stack({sums.gradient, sums.gradient_times_normalized}).to(statistics_.mean);
  if (group_ && group_.size() > 1)
    comm::all_reduce(group_, both);
  sums = {both[0], both[1]};
}

/// With z for the normalised x, N values a channel, and s for weight / deviation:
/// s * (gradient - sum(gradient) / N - z * sum(gradient * z) / N).
at::Tensor SyncBatchNormBackward::input_gradient(
    const at::Tensor& x,
    const at::Tensor& gradient,
    const at::Tensor& weight,
    const ChannelSums& sums) const {
  const at::Tensor scale = statistics_.variance.add(eps_).rsqrt_();
  if (weight.defined())
    scale.mul_(weight.detach().to(scale));
  const at::Tensor per_value = scale.div(-static_cast<double>(statistics_.count));
  at::Tensor result = scaled(
      x,
      statistics_,
      per_value.mul(sums.gradient_times_normalized),
      per_value.mul(sums.gradient),
      eps_);
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape[1] = x.size(1);
  return result.addcmul_(gradient, like(x, scale).view(shape));
}

}  // namespace

at::Tensor normalize(
    const at::Tensor& x,
    const BatchStatistics& statistics,
    const NormalizeOptions& options) {
  const at::Tensor &weight = options.weight, &bias = options.bias;
  at::Tensor y;
  {
    const c10::NoGradGuard no_grad;
    y = scaled(to_compute_type(x), statistics, weight, bias, options.eps)
            .to(x.scalar_type());
  }
  if (c10::GradMode::is_enabled() &&
      (autograd::needs_gradient(x) || autograd::needs_gradient(weight) ||
       autograd::needs_gradient(bias)))
    torch::autograd::create_gradient_edge(
        y,
        autograd::make_node<SyncBatchNormBackward>(
            torch::autograd::collect_next_edges(x, weight, bias),
            x,
            statistics,
            options));
  return y;
}

}  // namespace trireme::dp
