// Packets over connections: a Unix socket to workers of the same host, TCP to others.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/core/deadline.h"
#include "trireme/net/address.h"
#include "trireme/net/security.h"
#include "trireme/rpc/roster.h"
#include "trireme/rpc/transport.h"

namespace trireme::rpc {

class NodeTransportCore;

struct NodeTransportOptions {
  /// Who this worker is. With certificates, its own says so too.
  WorkerInfo me;
  /// Tells this job from others, and its starts.
  std::string job;
  std::uint64_t incarnation = 0;
  /// Security::from_environment() if left out.
  std::optional<net::Security> security;
  /// Where to listen for workers of other hosts, and what they take for the host of
  /// that address; empty for its own.
  net::Address listen = net::Address::tcp("127.0.0.1", 0);
  std::string host;
  /// Whether workers of one host talk over Unix sockets.
  bool unix_sockets = true;
  /// Whether large tensors for workers of the same host and user go through memory that
  /// both see, from how many bytes on, and how many bytes one worker may hold at once:
  /// beyond that they go through the socket. Unused memory goes back after a while.
  bool shared_memory = true;
  std::size_t shared_bytes = std::size_t{32} << 10;
  std::uint64_t arena_bytes = std::uint64_t{1} << 30;
  /// How much of what is sent to a worker may wait for a connection with it. What is
  /// beyond is dropped, and reported as lost once there is one.
  std::size_t waiting_bytes = std::size_t{64} << 20;
  /// How long one attempt to connect may take.
  std::chrono::milliseconds dial = std::chrono::seconds(2);
  /// How long a broken connection may take to come back before it counts as lost.
  std::chrono::milliseconds reconnect = std::chrono::milliseconds(500);
  /// How long a worker may be silent before its connection counts as lost.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(10);
};

/// What a transport has done so far.
struct NodeTransportStats {
  /// Sessions that are open now.
  std::size_t sessions = 0;
  std::uint64_t packets_sent = 0;
  std::uint64_t packets_received = 0;
  /// Parts that went through shared memory.
  std::uint64_t parts_shared = 0;
  /// What is lent to other workers now.
  std::uint64_t lent_bytes = 0;
  /// Packets that were dropped because too much waited for a connection.
  std::uint64_t packets_dropped = 0;
  /// How often somebody was turned away: see net::Node::turned_away().
  std::uint64_t turned_away = 0;
};

/// A worker's connections. They are made when there is first something to send, and
/// made again, with growing pauses, when they are lost. send() is called from any
/// thread, and writes what the socket takes at once. The receiver is called from
/// several threads, but never from two at a time.
///
///     NodeTransport transport({.me = me, .job = "demo"});
///     auto members = meet(store, transport.member(), world_size, deadline);
///     transport.start(members, receiver);
///     transport.send(1, {.head = "hello"});
///     transport.close(Deadline::after(std::chrono::seconds(5)));
class NodeTransport final : public Transport {
 public:
  explicit NodeTransport(NodeTransportOptions options);
  /// Closes at once. What is queued may be lost, but the goodbye is said.
  ~NodeTransport() override;

  /// This worker, as the others shall know it.
  Member member() const;

  /// From now on packets go to the others and come from them, those included that came
  /// before. `members` has one for each number, this worker among them.
  void start(const std::vector<Member>& members, PacketReceiver& receiver);

  /// InvalidArgument for a worker that is not among the members, for this one itself,
  /// and for a packet above the limits of a message. What is sent to a worker that is
  /// gone goes nowhere.
  void send(WorkerId to, Packet packet) override;

  void give_up(WorkerId worker) override;

  /// Sends what is queued, as far as the deadline allows, and says goodbye. When it
  /// returns the receiver is not called any more.
  void close(Deadline deadline);

  NodeTransportStats stats() const;

  /// Whether a worker's process is known to have ended, also where nobody has talked to
  /// it yet: so far as this host can tell.
  bool has_ended(WorkerId worker) const;

 private:
  const std::unique_ptr<NodeTransportCore> core_;
};

}  // namespace trireme::rpc
