// A rank's hold on a world whose ranks talk over tcp: its node, its peers, its mail.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/comm/tcp/tcp_header.h"
#include "trireme/comm/tcp/tcp_mail.h"
#include "trireme/comm/tcp/tcp_meeting.h"
#include "trireme/comm/wire/wire.h"
#include "trireme/net/node.h"
#include "trireme/net/store.h"

namespace trireme::comm {

/// What a world is made of.
struct TcpSetup {
  int rank = 0;
  int size = 1;
  /// Where the ranks find each other; its keys are this world's alone.
  std::shared_ptr<net::Store> store;
  net::Security security;
  /// Tells this job from others, and its starts.
  std::string job;
  uint64_t incarnation = 0;
  /// Where this rank listens, so that the others reach it.
  net::Address listen = net::Address::tcp("127.0.0.1", 0);
  /// What the others take for the host of that address; empty: its own.
  std::string host;
  std::string flight_folder;
  WireTuning tuning;
  /// Counts renewals.
  uint64_t generation = 0;
  /// How long a rank may be silent before it counts as dead.
  std::chrono::milliseconds heartbeat = std::chrono::seconds(10);
};

/// Connections are made when they are first needed; only one to the next rank is there
/// from the start, so that a failure finds its way to everybody.
class TcpWorld : public WireWorld, public net::Receiver {
 public:
  /// Meets all ranks; TimeoutError names those that do not come. Then all may call it
  /// again: either all ranks join, or none does.
  static std::shared_ptr<TcpWorld> join(
      const TcpSetup& setup, const Deadline& deadline);
  /// Says goodbye; a world that goes by an exception is stopped.
  ~TcpWorld() override;

  const TcpSetup& setup() const { return setup_; }
  TcpMail& mail() const { return *mail_; }
  BufferPool& pool() override { return pool_; }
  void set_spin(std::chrono::nanoseconds spin) override {
    node_->set_looks(spin.count() > 0);
  }
  void share_bell(std::shared_ptr<Doorbell> bell) override {
    bell_ = std::move(bell);
    mail_->ring_along(bell_);
  }
  /// What rings for its channels.
  Doorbell& bell() const { return bell_ ? *bell_ : *mail_; }
  void stop(const Failure& failure) noexcept override;
  void check() const override;
  void stay_away(const Failure& failure) noexcept override;

  // Each may have to connect first, until the deadline.

  void start_send(const TcpTransferPtr& transfer, const Deadline& deadline);
  void start_receive(const TcpTransferPtr& transfer, const Deadline& deadline);
  void send_copy(
      uint32_t group,
      int to,
      uint64_t number,
      std::span<const std::byte> bytes,
      const Deadline& deadline);
  void send_message(const TcpChannelKey& key, Buffer message, const Deadline& deadline);
  void send_credit(const TcpChannelKey& key, const WireCredit& credit);
  void send_closed(const TcpChannelKey& key, uint64_t messages);
  /// Tells those who were spoken to that this rank has left a group.
  void leave(uint32_t group, std::span<const int> members);
  /// Forgets transfers; when it returns, nobody touches their memory.
  void withdraw(std::span<const TcpTransferPtr> transfers);
  /// Writes the flight record, once, and throws TimeoutError: a message did not come.
  [[noreturn]] void time_out_channel(const std::string& what);

  void joined(const net::Peer& peer) override;
  std::span<std::byte> place(
      const net::Peer& peer, const net::Envelope& envelope, size_t bytes) override;
  void received(const net::Peer& peer, net::InMessage message) override;
  void lost(const net::Peer& peer, net::Ending ending, const std::string& why) override;

 private:
  explicit TcpWorld(TcpSetup setup);
  bool meet(int attempt, const Deadline& deadline);
  void start_node();
  void leave_meeting();
  void meet_neighbours(TcpMeeting& meeting, const Deadline& deadline);
  void note_gone(const std::string& key, const std::string& why);
  std::string own_address() const;
  void look_for_gone();
  using Check = std::function<void()>;
  net::Peer peer(int rank, const Deadline& deadline, const Check& while_dialling = {});
  net::Peer dial(int rank, const Deadline& deadline, const Check& check);
  std::vector<net::Peer> sessions_with(int rank);
  std::optional<net::Peer> known_peer(int rank);
  bool has_other_session(int rank, const net::Peer& than);
  void push(const net::Peer& peer, const TcpTransferPtr& transfer);
  void fail(const Failure& failure, bool ours) noexcept;
  void tell_peers(TcpKind kind, const Failure& failure) noexcept;

  TcpSetup setup_;
  int exceptions_at_start_;
  BufferPool pool_;
  // Messages on their way hold it too: they may outlive the world by a moment.
  std::shared_ptr<TcpMail> mail_ = std::make_shared<TcpMail>(size());
  // Kept, because those who wait hold no more than a pointer. The mail does not: it may
  // be the I/O thread that lets go of it.
  std::shared_ptr<Doorbell> bell_;
  std::vector<std::string> addresses_;  // by rank
  std::mutex mutex_;
  std::vector<net::Peer> chosen_;   // by rank: over which this rank sends
  std::vector<net::Peer> inbound_;  // by rank: who has dialled
  std::vector<std::unique_ptr<std::mutex>> dialling_;
  std::atomic<bool> timeout_noted_{false};
  // Whom it tells may come back with the same failure, on the same thread.
  std::recursive_mutex fail_mutex_;
  bool failed_ = false;
  std::atomic<bool> leaving_{false};
  std::unique_ptr<net::Node> node_;
};

}  // namespace trireme::comm
