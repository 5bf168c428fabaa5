// `trireme bench ddp`: what data parallelism adds to a step, beside torch's DDP on
// gloo.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "trireme/bench/ddp_worker.h"
#include "trireme/bench/measure.h"

namespace trireme::bench {

/// What is measured, and what is asked of it.
struct DdpCase {
  std::string name;
  int ranks = 2;
  DdpJob job;
  /// The figure is the added time of one parameter, not of the step.
  bool per_parameter = false;
  /// Left out of --quick, unless it is asked for by name.
  bool slow = false;
  std::optional<double> goal;
  /// In microseconds.
  std::optional<double> limit;
};

/// All cases, those of one number of ranks together.
std::vector<DdpCase> ddp_cases();

/// What the first half of the times is above the second half, by their medians, in
/// microseconds; at least kLeastAdded, since a ratio needs a figure above zero. Pure.
double added_time(const std::vector<double>& times);
inline constexpr double kLeastAdded = 0.1;

/// Measures them; InvalidArgument when `only` leaves none. Progress goes to stderr.
BenchReport bench_ddp(const MeasureOptions& options);

}  // namespace trireme::bench
