// Worlds of "hosts" in one process: the ranks of each share a LocalWorld, and a wire
// between threads joins them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "local_wire.h"
#include "trireme/comm/init.h"
#include "trireme/comm/wire/hosts_engine.h"

namespace trireme::comm {

/// So many ranks on each host.
class LocalHosts {
 public:
  explicit LocalHosts(std::vector<int> sizes, const WireTuning& tuning = {})
      : ranks_(std::accumulate(sizes.begin(), sizes.end(), 0)), net_(ranks_, tuning) {
    for (const int size : sizes) {
      const auto first = static_cast<int>(host_of_.size());
      inner_.push_back(std::make_unique<LocalWorld>(
          size, HostPlace{.first_rank = first, .ranks_in_all = ranks_}));
      host_of_.insert(host_of_.end(), static_cast<size_t>(size), first);
    }
  }
  int ranks() const { return ranks_; }
  /// Makes every link as slow as this; for before the ranks join.
  void limit(double bytes_per_second) { net_.limit(bytes_per_second); }
  std::shared_ptr<Engine> join(int rank, const Deadline& deadline) const {
    auto flat = net_.join(rank, deadline);
    size_t host = 0;
    for (int k = 1; k <= rank; ++k)
      host += host_of_[static_cast<size_t>(k)] != host_of_[static_cast<size_t>(k) - 1];
    auto inner = std::static_pointer_cast<SharedEngine>(
        inner_[host]->join(rank - host_of_[static_cast<size_t>(rank)], deadline));
    return HostsEngine::root(std::move(inner), std::move(flat), host_of_);
  }

 private:
  int ranks_;
  LocalWireNet net_;
  std::vector<std::unique_ptr<LocalWorld>> inner_;
  std::vector<int> host_of_;
};

/// Runs `body` on every rank of such a world.
inline void run_hosts(
    const std::vector<int>& sizes,
    const std::function<void(const Group&)>& body,
    const WireTuning& tuning = {},
    std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
  const LocalHosts hosts(sizes, tuning);
  run_threads(
      hosts.ranks(),
      [&hosts](int rank, const Deadline& deadline) {
        return hosts.join(rank, deadline);
      },
      body,
      {.timeout = timeout});
}

/// Runs `body` on ranks that have nothing but a wire.
inline void run_wire(
    int ranks,
    const std::function<void(const Group&)>& body,
    const WireTuning& tuning = {},
    std::chrono::milliseconds timeout = std::chrono::seconds(30)) {
  const LocalWireNet net(ranks, tuning);
  run_threads(
      ranks,
      [&net](int rank, const Deadline& deadline) { return net.join(rank, deadline); },
      body,
      {.timeout = timeout});
}

}  // namespace trireme::comm
