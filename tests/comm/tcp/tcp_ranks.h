// Ranks as threads that talk over tcp on the loopback device.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "trireme/comm/init.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/comm/tcp/tcp_wire.h"
#include "trireme/comm/wire/hosts_engine.h"
#include "trireme/net/memory_store.h"

namespace trireme::comm {

/// How the ranks of a test talk.
struct TcpRanks {
  /// Ranks on each "host"; those of one host share memory if there are several hosts.
  std::vector<int> hosts;
  net::Security security = net::Security::insecure_loopback();
  /// By rank, where each has its own.
  std::vector<net::Security> securities = {};
  WireTuning tuning = {};
  std::chrono::milliseconds timeout = std::chrono::seconds(30);

  int ranks() const {
    int all = 0;
    for (const int host : hosts)
      all += host;
    return all;
  }
  TcpSetup setup(int rank, std::shared_ptr<net::Store> store) const {
    return {
        .rank = rank,
        .size = ranks(),
        .store = std::move(store),
        .security =
            securities.empty() ? security : securities[static_cast<size_t>(rank)],
        .job = "test",
        .tuning = tuning};
  }
};

/// Runs `body` on every rank.
inline void run_tcp(
    const TcpRanks& how, const std::function<void(const Group&)>& body) {
  const auto store = std::make_shared<net::MemoryStore>();
  std::vector<std::unique_ptr<LocalWorld>> inner;
  std::vector<int> host_of, host_index;
  for (const int size : how.hosts) {
    const auto first = static_cast<int>(host_of.size());
    inner.push_back(std::make_unique<LocalWorld>(
        size, HostPlace{.first_rank = first, .ranks_in_all = how.ranks()}));
    host_index.insert(
        host_index.end(),
        static_cast<size_t>(size),
        static_cast<int>(inner.size()) - 1);
    host_of.insert(host_of.end(), static_cast<size_t>(size), first);
  }
  const auto join = [&](int rank, const Deadline& deadline) -> std::shared_ptr<Engine> {
    auto flat =
        std::make_shared<WireEngine>(TcpWire::root(how.setup(rank, store), deadline));
    if (inner.size() == 1)
      return flat;
    const auto at = static_cast<size_t>(rank);
    auto shared = std::static_pointer_cast<SharedEngine>(
        inner[static_cast<size_t>(host_index[at])]->join(rank - host_of[at], deadline));
    return HostsEngine::root(std::move(shared), std::move(flat), host_of);
  };
  run_threads(how.ranks(), join, body, {.timeout = how.timeout});
}

}  // namespace trireme::comm
