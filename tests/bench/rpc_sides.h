// Both workers of `bench rpc`, in two threads of one process.
#pragma once
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/bench/rpc_worker.h"
#include "trireme/net/memory_store.h"

namespace trireme::bench {

/// The rows of rank 0 and rank 1, for each job.
inline std::vector<std::vector<std::vector<double>>> rpc_rows(
    const std::vector<RpcJob>& jobs) {
  const RpcMeeting meeting{
      .store = std::make_shared<net::MemoryStore>(), .key = net::JobKey::random()};
  std::vector<std::vector<std::vector<double>>> rows(
      jobs.size(), std::vector<std::vector<double>>(2));
  const auto run = [&](int rank) {
    try {
      RpcWorker worker(rank, meeting);
      for (size_t i = 0; i < jobs.size(); ++i)
        rows[i][static_cast<size_t>(rank)] = worker.work(jobs[i]);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "rank " << rank << ": " << error.what();
    }
  };
  std::jthread other([&] { run(1); });
  run(0);
  other.join();
  return rows;
}

}  // namespace trireme::bench
