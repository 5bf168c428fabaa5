// Our own end of a connection.
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "trireme/bench/net_end.h"
#include "trireme/net/node.h"

namespace trireme::bench {

/// A node with one peer. It answers on its I/O thread, as a node that serves does; who
/// asks waits in a thread of its own.
class NodeEnd : public NetEnd, private net::Receiver {
 public:
  using Clock = std::chrono::steady_clock;
  NodeEnd(net::Security security, net::Side side, int port, const Deadline& deadline);
  ~NodeEnd() override;

  void ask(std::span<const std::byte> message, std::span<std::byte> reply) override;
  void serve(int count, std::span<std::byte> message, std::span<const std::byte> reply)
      override;

  /// Asks so many times, each time from the I/O thread as soon as the answer is there.
  /// How long each took, in seconds.
  std::vector<double> ask_in_chain(
      int count, std::span<const std::byte> message, std::span<std::byte> reply);

  /// Sends a small message when a large one is well under way, and waits for the answer
  /// that serve_overtaking() gives when it has both. When it sent the small one.
  Clock::time_point overtake(std::span<const std::byte> large);
  /// Does so many times. When the small ones came.
  std::vector<Clock::time_point> serve_overtaking(
      int count, std::span<std::byte> large);

  /// The dialer dials so many sessions more, and keeps them; the acceptor waits until
  /// it has them.
  void add_sessions(int count, const Deadline& deadline);
  /// And closes them, or waits for that.
  void drop_sessions(const Deadline& deadline);

 private:
  std::span<std::byte> place(
      const net::Peer& peer, const net::Envelope& envelope, std::size_t bytes) override;
  void received(const net::Peer& peer, net::InMessage message) override;
  void joined(const net::Peer& peer) override;
  void lost(const net::Peer& peer, net::Ending ending, const std::string& why) override;
  void send(std::span<const std::byte> bytes);
  void answer(std::span<const std::byte> reply);
  template <class Condition>
  void wait(const Deadline& deadline, const Condition& condition);

  const net::Side side_;
  const net::Address address_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::span<std::byte> memory_;  // for messages of just this length
  std::span<const std::byte> reply_;
  int to_answer_ = 0;  // with reply_, on the I/O thread
  int arrived_ = 0;    // and nobody has taken notice yet
  std::span<const std::byte> question_;
  int to_ask_ = 0;  // question_, on the I/O thread
  std::vector<Clock::time_point> asked_;
  Clock::time_point small_arrived_;
  int sessions_ = 0;
  net::Peer peer_;
  std::vector<net::Peer> more_;
  std::optional<net::Node> node_;
};

}  // namespace trireme::bench
