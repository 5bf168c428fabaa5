// `trireme bench net`: messages between two processes beside bare sockets.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "trireme/bench/measure.h"
#include "trireme/bench/net_worker.h"

namespace trireme::bench {

/// What is measured, and what is asked of it.
struct NetCase {
  std::string name;
  NetJob ours;
  std::optional<NetJob> peer;
  std::optional<double> goal;
  /// In `unit`.
  std::optional<double> limit;
  std::string unit = "us";
};

/// All cases.
std::vector<NetCase> net_cases();

/// Measures them; InvalidArgument when `only` leaves none. Progress goes to stderr.
BenchReport bench_net(const MeasureOptions& options);

}  // namespace trireme::bench
