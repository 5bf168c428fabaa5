// `trireme bench dist-autograd`: backward through remote calls, beside
// torch.distributed.autograd.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "trireme/bench/dist_autograd_worker.h"
#include "trireme/bench/measure.h"

namespace trireme::bench {

/// What is measured, and what is asked of it. The peer has the same job; it knows
/// neither protection nor exact passes.
struct GradientCase {
  std::string name;
  int ranks = 2;
  GradientJob job;
  std::optional<double> goal;
};

/// All cases, those of one number of ranks together; without TLS those of it are left
/// out, and the others have the goals.
std::vector<GradientCase> gradient_cases(bool tls);

/// Measures them; InvalidArgument when `only` leaves none. Progress goes to stderr.
BenchReport bench_dist_autograd(const MeasureOptions& options);

}  // namespace trireme::bench
