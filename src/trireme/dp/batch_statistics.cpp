#include "trireme/dp/batch_statistics.h"

#include <tuple>

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "trireme/comm/collectives.h"

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

}  // namespace trireme::dp
