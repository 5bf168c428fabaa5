// `trireme bench rpc`: calls between two processes of one host, beside
// torch.distributed.rpc.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "trireme/bench/measure.h"
#include "trireme/bench/rpc_crowd.h"
#include "trireme/bench/rpc_worker.h"

namespace trireme::bench {

/// What is measured, and what is asked of it.
struct RpcCase {
  std::string name;
  RpcJob ours;
  std::optional<RpcJob> peer;
  std::optional<double> goal;
  /// In `unit`.
  std::optional<double> limit;
  std::string unit = "us";
  /// Of a crowd's figures this one.
  std::optional<CrowdFigure> figure;
};

/// All cases; without TLS those of it are left out. A crowd calls for so many seconds.
std::vector<RpcCase> rpc_cases(bool tls, double crowd_seconds);

/// Measures them; InvalidArgument when `only` leaves none. Progress goes to stderr.
BenchReport bench_rpc(const MeasureOptions& options);

}  // namespace trireme::bench
