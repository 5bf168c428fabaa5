// The store that another process hosts.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "trireme/net/address.h"
#include "trireme/net/request_store.h"
#include "trireme/net/security.h"

namespace trireme::net {

struct TcpStoreOptions {
  /// Where the server listens, and what it is called.
  Address server = Address::tcp("127.0.0.1", 0);
  std::string server_name = "store";
  /// The rank that hosts it, for PeerError; below 0 if none does.
  int server_rank = -1;
  Security security;
  /// Who this is, for the server; with certificates, what its own one says.
  std::string name = "client";
  /// As in NodeOptions: the same as the server's.
  std::string job;
  std::uint64_t incarnation = 0;
  /// For the constructor, which waits until somebody listens, and for calls without a
  /// deadline.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  /// As in NodeOptions: after them a server that does not answer is gone for good.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(10);
  std::chrono::milliseconds reconnect = std::chrono::milliseconds(1200);
};

/// A client of a StoreServer, with one connection and one thread for all callers. A
/// connection that breaks is made again, and no request is done twice. When the server
/// is gone, all calls throw, those that wait as well, and watches report Lost once.
///
///     TcpStore store({.server = Address::parse("tcp://node7:29500"),
///                     .security = Security::job_key(key), .job = "train"});
///     store.set("rank/3", address);
class TcpStore : public RequestStore {
 public:
  /// Waits for the server. TimeoutError if nobody listens, Error if it refuses.
  explicit TcpStore(TcpStoreOptions options);
  ~TcpStore() override;

  StoreWatch watch(std::string_view prefix, Callback callback) override;

 protected:
  StoreReply call(StoreRequest request, Deadline deadline) override;
  Deadline own_deadline() const override;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace trireme::net
