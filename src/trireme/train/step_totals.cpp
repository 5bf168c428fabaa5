#include "trireme/train/step_totals.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "trireme/comm/collectives.h"

namespace trireme::train {
namespace {

enum Column : int64_t { kLoss, kBusy, kStart, kEnd, kPeak, kStop, kBad, kColumns };

}  // namespace

StepTotals total(
    const comm::Group& world, const Degrees& degrees, const RankStep& mine) {
  // Nanoseconds since boot fit a double for a hundred days to the nanosecond, and
  // beyond that to a few.
  at::Tensor row = at::zeros({kColumns}, at::kDouble);
  auto* values = row.data_ptr<double>();
  values[kLoss] = mine.has_loss ? mine.outcome.loss : 0;
  values[kBusy] = mine.outcome.busy_s;
  values[kStart] = static_cast<double>(mine.outcome.start_ns);
  values[kEnd] = static_cast<double>(mine.outcome.end_ns);
  values[kPeak] = static_cast<double>(mine.peak_bytes);
  values[kStop] = mine.stop ? 1 : 0;
  values[kBad] = std::isfinite(mine.outcome.grad_norm) ? 0 : 1;
  at::Tensor all = at::empty({world.size() * kColumns}, at::kDouble);
  comm::all_gather(world, all, row);
  const auto* rows = all.const_data_ptr<double>();
  StepTotals totals;
  double busy = 0;
  double start = std::numeric_limits<double>::infinity();
  double end = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    const double* one = rows + rank * kColumns;
    totals.loss += one[kLoss] / degrees.dp;
    busy += one[kBusy];
    start = std::min(start, one[kStart]);
    end = std::max(end, one[kEnd]);
    totals.peak_bytes = std::max(totals.peak_bytes, static_cast<int64_t>(one[kPeak]));
    totals.stop = totals.stop || one[kStop] != 0;
    totals.finite = totals.finite && one[kBad] == 0 && std::isfinite(one[kLoss]);
  }
  const double span = (end - start) * 1e-9 * world.size();
  totals.bubble = span > 0 ? std::clamp(1 - busy / span, 0.0, 1.0) : 0;
  return totals;
}

double mean_loss(
    const comm::Group& world, const Degrees& degrees, double mine, bool has_loss) {
  at::Tensor sum = at::full({1}, has_loss ? mine : 0.0, at::kDouble);
  comm::all_reduce(world, sum);
  return sum.item<double>() / degrees.dp;
}

}  // namespace trireme::train
