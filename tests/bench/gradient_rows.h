// All workers of `bench dist-autograd`, as threads of one process.
#pragma once
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/bench/dist_autograd_worker.h"
#include "trireme/comm/init.h"
#include "trireme/net/memory_store.h"

namespace trireme::bench {

/// The rows of all ranks, for each job.
inline std::vector<std::vector<std::vector<double>>> gradient_rows(
    int ranks, const std::vector<GradientJob>& jobs) {
  const RpcMeeting meeting{
      .store = std::make_shared<net::MemoryStore>(), .key = net::JobKey::random()};
  std::vector<std::vector<std::vector<double>>> rows(
      jobs.size(), std::vector<std::vector<double>>(static_cast<size_t>(ranks)));
  comm::run_local(
      ranks,
      [&](const comm::Group& world) {
        GradientWorker worker(world, meeting);
        for (size_t i = 0; i < jobs.size(); ++i)
          rows[i][static_cast<size_t>(world.rank())] = worker.work(jobs[i]);
      },
      {.timeout = std::chrono::minutes(1)});
  return rows;
}

}  // namespace trireme::bench
