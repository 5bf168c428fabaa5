// Hosts a store for other processes: the launcher does, or rank 0.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/net/address.h"
#include "trireme/net/security.h"
#include "trireme/net/store.h"

namespace trireme::net {

struct StoreServerOptions {
  /// Where to listen. It may be everywhere: only who can prove to be of the job gets
  /// in.
  std::vector<Address> listen = {Address::tcp("127.0.0.1", 0)};
  Security security;
  /// What clients call it; with certificates, what its own one says.
  std::string name = "store";
  /// As in NodeOptions: clients must say the same.
  std::string job;
  std::uint64_t incarnation = 0;
  StoreLimits limits;
  /// How many bytes may wait for a client that does not take them. Beyond, its further
  /// requests wait, and its watches miss changes (StoreChange::Kind::Lost).
  std::size_t client_bytes = std::size_t{8} << 20;
  /// Whether to put why a client was lost under kGonePrefix and its name, for those
  /// who wait for it; the key goes when a client of that name comes.
  bool tell_gone = false;
  /// As in NodeOptions.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(10);
  std::chrono::milliseconds reconnect = std::chrono::milliseconds(1500);
  std::chrono::milliseconds linger = std::chrono::seconds(5);
};

/// The names of clients that were lost follow it.
inline constexpr std::string_view kGonePrefix = "gone/";

/// What a server holds now.
struct StoreServerStats {
  std::size_t clients = 0;
  std::size_t entries = 0;
  std::size_t bytes = 0;
  std::size_t waits = 0;
  std::size_t watches = 0;
  /// Requests that wait because their client does not take its replies.
  std::size_t held_requests = 0;
};

/// Answers the requests of TcpStores, on one thread of its own. The store ends with it.
/// Any thread may call.
///
///     StoreServer server({.listen = {Address::tcp("0.0.0.0", 29500)},
///                         .security = Security::job_key(key), .job = "train"});
class StoreServer {
 public:
  /// InvalidArgument where it cannot listen, or must not without protection.
  explicit StoreServer(StoreServerOptions options);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  /// Where it listens, with the ports that the system chose.
  std::vector<Address> addresses() const;
  StoreServerStats stats() const;

 private:
  class Desk;
  std::unique_ptr<Desk> desk_;
};

}  // namespace trireme::net
