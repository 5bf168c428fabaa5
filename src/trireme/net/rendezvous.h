// How the processes of a job find their store, and each other in it.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/environment.h"
#include "trireme/net/address.h"
#include "trireme/net/security.h"
#include "trireme/net/store.h"

namespace trireme::net {

/// What open_store() needs beside the URL. What is left out comes from the variables.
struct OpenStoreOptions {
  Environment env = Environment::of_process();
  /// Security::from_environment() if left out; a file store needs none.
  std::optional<Security> security;
  /// For tcp:// without them: rank 0 hosts the store, one without a rank connects.
  std::optional<int> rank;
  /// Who this is: "rank-3", or "client" without a rank. Who hosts it: "rank-0", or
  /// "store" where no rank does. With certificates they must be what those say.
  std::string name;
  std::string server_name;
  /// What tells this job from others, and its starts: the launcher's run id and restart
  /// count.
  std::optional<std::string> job;
  std::optional<std::uint64_t> incarnation;
  /// How long to wait for the server, and for calls without a deadline:
  /// TRIREME_TIMEOUT.
  std::optional<std::chrono::milliseconds> timeout;
  /// How long one may be silent, where a rank hosts it: as in NodeOptions.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(10);
  StoreLimits limits;
};

/// Opens the store of a URL (see StoreUrl); all processes of a job give the same.
///
/// env:// reads TRIREME_STORE, the URL of a store that the launcher hosts; where it is
/// not set, rank 0 hosts it at MASTER_ADDR and MASTER_PORT, and a world of one needs no
/// other process. Where torchrun's agent listens at MASTER_PORT
/// (TORCHELASTIC_USE_AGENT_STORE is True) it is the port behind that, or
/// TRIREME_STORE_PORT, which holds everywhere. What rank 0 hosts ends with its store:
/// let it be the last to close, for instance after a second join(). Such a store says
/// under kGonePrefix (store_server.h) which ranks were lost.
///
///     auto store = open_store("env://");
///     auto addresses = join(*store, world_size, rank, own_address, deadline);
///
/// InvalidArgument for a bad URL or missing variables, TimeoutError if nobody hosts it.
std::shared_ptr<Store> open_store(std::string_view url, OpenStoreOptions options = {});

/// Where to listen so that others reach a host by this address: there if it is a
/// loopback one, else everywhere, with the same port.
Address listen_address(const Address& address);
/// How this process reaches what listens there.
Address own_address(const Address& listens);

/// Puts this rank's value into the store, waits until all ranks have done so, and gives
/// the values of all, by rank. TimeoutError names the ranks that are missing;
/// InvalidArgument if another process has joined as this rank. It uses the keys
/// "join/0" and so on: for another round use a PrefixStore. `check` is called now and
/// then while it waits; what it throws ends the wait.
std::vector<std::string> join(
    Store& store,
    int world_size,
    int rank,
    std::string_view value,
    Deadline deadline,
    const std::function<void()>& check = nullptr);

}  // namespace trireme::net
