// Many workers that call one at once, of `trireme bench rpc`.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "trireme/bench/rpc_worker.h"

namespace trireme::bench {

/// What a crowd yields, in the order of the figures of its row.
enum class CrowdFigure {
  Lost,    ///< calls that the server has not run once, or whose answer has not come
  Tail,    ///< the 99th percentile of their times over the median
  Growth,  ///< KiB, by which the server grew after a third of the time
  Median,  ///< us
};

/// The figures of calls that took so long, in seconds. Pure.
std::vector<double> crowd_row(
    std::vector<double> times, int64_t served, double growth_kib);

/// Runs `job.clients` agents, each with a thread that calls in a loop for
/// `job.seconds`.
std::vector<double> call_as_crowd(
    const RpcJob& job, const std::string& world, const RpcMeeting& meeting);

/// Serves them until all have ended.
void serve_crowd(
    const RpcJob& job, const std::string& world, const RpcMeeting& meeting);

}  // namespace trireme::bench
