// A process's end of all its connections: listens, dials, sends, receives.
#pragma once
#include <atomic>
#include <chrono>
#include <compare>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/core/deadline.h"
#include "trireme/net/address.h"
#include "trireme/net/message.h"
#include "trireme/net/security.h"

namespace trireme::net {

class NodeCore;
class Session;

/// The other end of a session. It outlives breaks of the connection: what was not
/// acknowledged is sent again over the next one, and nothing arrives twice. A handle:
/// copies mean the same session.
class Peer {
 public:
  Peer() = default;
  explicit Peer(std::shared_ptr<Session> session) : session_(std::move(session)) {}

  /// The name that the other side has given, and proved where there are certificates.
  const std::string& name() const;
  /// Queues a message, and writes at once what the socket takes. Never waits. Small
  /// messages may overtake large ones; messages of one lane arrive in order. After the
  /// session has ended, `done` is called with false. InvalidArgument for a message
  /// above the limits.
  void send(OutMessage message) const;
  /// Ends the session: what is queued is still sent as far as `linger` allows, over a
  /// new connection if this one is broken and comes back; then the other side's
  /// Receiver::lost says that this one has left.
  void close() const;
  /// Ends the session at once, without a goodbye, and whatever is queued. When it
  /// returns, nobody touches the memory of messages any more, be they on their way out
  /// or in.
  void drop() const;
  /// Whether it has ended, and why.
  bool ended() const;
  std::string why() const;
  /// Bytes that wait to be sent or acknowledged.
  std::size_t queued_bytes() const;

  explicit operator bool() const { return session_ != nullptr; }
  bool operator==(const Peer&) const = default;
  /// Any order, for maps.
  auto operator<=>(const Peer&) const = default;

 private:
  std::shared_ptr<Session> session_;
};

/// Why a session ended.
enum class Ending {
  Left,     ///< the other side closed it
  Closed,   ///< this side did
  Lost,     ///< the connection broke or fell silent, and did not come back in time
  Refused,  ///< one side would not have the other: wrong name, job or version
};

/// What happens to a node. All calls come from its I/O thread, one at a time: they must
/// not block, and what they throw ends the session.
class Receiver {
 public:
  virtual ~Receiver() = default;
  /// A peer has dialled, and was found to be who it says.
  virtual void joined(const Peer& peer);
  /// Where the body of a message shall go: exactly `bytes`, or nothing for a block of
  /// the pool. The memory must stay until the message has come or the session has
  /// ended.
  virtual std::span<std::byte> place(
      const Peer& peer, const Envelope& envelope, std::size_t bytes);
  virtual void received(const Peer& peer, InMessage message) = 0;
  /// The session has ended; no message comes after it.
  virtual void lost(const Peer& peer, Ending ending, const std::string& why);
};

struct NodeOptions {
  /// Who this is, for peers and for errors.
  std::string name;
  /// Both sides must be of the same job, and of the same start of it.
  std::string job;
  std::uint64_t incarnation = 0;
  Security security;
  /// Where to listen; nothing for a node that only dials.
  std::vector<Address> listen;
  /// Names that may join; empty for all who can prove to be of the job.
  std::vector<std::string> roster;
  Limits limits;
  /// How long a peer may be silent before it counts as lost.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(10);
  /// How long a broken connection may take to come back.
  std::chrono::milliseconds reconnect = std::chrono::milliseconds(1500);
  /// How long a handshake may take.
  std::chrono::milliseconds handshake = std::chrono::seconds(5);
  /// How long close() goes on to send what is queued.
  std::chrono::milliseconds linger = std::chrono::seconds(5);
  /// How many connections may be in their handshake; beyond, one of them is dropped,
  /// those first that have said nothing.
  int strangers = 256;
};

/// Listens and dials, with one I/O thread. Destroying it closes all sessions.
///
///     struct Echo : net::Receiver {
///       void received(const net::Peer& peer, net::InMessage message) override {
///         peer.send({.envelope = message.envelope, .body = {message.body}, …});
///       }
///     } echo;
///     net::Node node({.name = "server", .job = "demo", .security = security,
///                     .listen = {net::Address::tcp("127.0.0.1", 0)}}, echo);
class Node {
 public:
  /// InvalidArgument where the options would send bytes off this machine unprotected.
  Node(NodeOptions options, Receiver& receiver);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Where it listens, with the ports that the system chose.
  std::vector<Address> addresses() const;

  /// A session with the node called `name` there. Waits until the handshake is through;
  /// tries again until the deadline as long as nobody listens. TimeoutError with what
  /// was tried last; Error if either side refuses. `check` is called now and then
  /// while it waits; what it throws ends the wait.
  Peer connect(
      const std::string& name,
      const Address& address,
      Deadline deadline,
      const std::function<void()>& check = nullptr);

  /// Whether its thread may look again for a moment before it sleeps, which makes
  /// answers faster (the default); false where ranks outnumber cores.
  void set_looks(bool looks);

  /// Closes all sessions, as Peer::close() does, and waits for what lingers; for a
  /// connection that is broken only if something is queued. After it no call comes.
  void close();

  /// How many handshakes failed, were dropped or refused, for reports.
  std::uint64_t turned_away() const;

 private:
  std::shared_ptr<NodeCore> core_;
};

}  // namespace trireme::net
