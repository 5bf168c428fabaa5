#include "trireme/train/step_totals.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "trireme/comm/collectives.h"

namespace trireme::train {
namespace {

enum Column : int64_t { kLoss, kBusy, kSpan, kPeak, kStop, kBad, kColumns };

}  // namespace

StepTotals total(
    const comm::Group& world, const Degrees& degrees, const RankStep& mine) {
  // Ranks may be on hosts whose clocks differ, so each tells how long its step was, and
  // not when. All begin it at about the same time, and the one that ends last has seen
  // all of it.
  at::Tensor row = at::zeros({kColumns}, at::kDouble);
  auto* values = row.data_ptr<double>();
  values[kLoss] = mine.has_loss ? mine.outcome.loss : 0;
  values[kBusy] = mine.outcome.busy_s;
  values[kSpan] =
      static_cast<double>(mine.outcome.end_ns - mine.outcome.start_ns) * 1e-9;
  values[kPeak] = static_cast<double>(mine.peak_bytes);
  values[kStop] = mine.stop ? 1 : 0;
  values[kBad] = std::isfinite(mine.outcome.grad_norm) ? 0 : 1;
  at::Tensor all = at::empty({world.size() * kColumns}, at::kDouble);
  comm::all_gather(world, all, row);
  const auto* rows = all.const_data_ptr<double>();
  StepTotals totals;
  double busy = 0;
  double longest = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    const double* one = rows + rank * kColumns;
    totals.loss += one[kLoss] / degrees.dp;
    busy += one[kBusy];
    longest = std::max(longest, one[kSpan]);
    totals.peak_bytes = std::max(totals.peak_bytes, static_cast<int64_t>(one[kPeak]));
    totals.stop = totals.stop || one[kStop] != 0;
    totals.finite = totals.finite && one[kBad] == 0 && std::isfinite(one[kLoss]);
  }
  const double span = longest * world.size();
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
