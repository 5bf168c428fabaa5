// What two nodes have together for as long as they want to: it outlives the connections
// that carry it.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "trireme/net/connection.h"
#include "trireme/net/hello.h"
#include "trireme/net/inbox.h"
#include "trireme/net/node.h"
#include "trireme/net/reactor.h"

namespace trireme::net {

class Line;
class NodeCore;

/// One end of a session. Its queue and its line are under a lock, because any thread
/// may send; what receives belongs to the I/O thread.
class Session : public FrameSource,
                public FrameSink,
                public std::enable_shared_from_this<Session> {
 public:
  using Clock = Reactor::Clock;
  Session(std::shared_ptr<NodeCore> core, std::string name, SessionId id);

  const std::string& name() const { return name_; }
  const SessionId& id() const { return id_; }

  // From any thread.

  void send(OutMessage message);
  void close();
  void drop();
  bool ended() const;
  std::string why() const;
  std::size_t queued_bytes() const;

  // From the I/O thread.

  /// What this side says of itself in a greeting.
  Hello greeting() const;
  /// A connection carries the session from now on; what the other side has not received
  /// goes again.
  void attach(const std::shared_ptr<Line>& line, const Hello& theirs);
  /// The connection is gone; the session waits for another.
  void detach();
  const std::shared_ptr<Line>& line() const { return line_; }
  /// Who touches the stream of its line holds this lock.
  std::mutex& stream_lock() const { return mutex_; }
  /// Writes what is queued. Gives whether the connection broke over it.
  bool flush();
  /// Reads what has come; true if the connection has closed.
  bool read();
  /// No connection carries it any more, and none will.
  void end(Ending ending, const std::string& why);
  /// For so long nothing could be heard.
  void forgive(Clock::duration deaf) { heard_ = std::min(heard_ + deaf, Clock::now()); }
  /// What the clock brings: pings, late acknowledgements, and a peer that fell silent.
  void tick();
  bool closing() const;
  bool peer_left() const { return peer_left_; }
  bool left() const { return leave_sent_; }

  bool next(OutFrame& out) override;
  void written(OutFrame&& frame) override;
  std::span<std::byte> begin(const Frame& frame, std::string header) override;
  void end(const Frame& frame) override;
  /// What was read together with its end is nobody's.
  bool wants_more() const override { return !ended_; }

  // The dialer's own.
  std::vector<Endpoint> endpoints;
  std::size_t attempts = 0;
  /// When it counts as lost unless a connection carries it again.
  Clock::time_point patience;
  std::promise<void> connected;
  bool was_connected = false;
  /// How often a connection was given up because its bytes made no sense.
  int damages = 0;
  /// How often in a row it fell silent soon after it was connected.
  int silences = 0;
  std::string last_trouble;

 private:
  struct Holding;
  void write_line();
  void take_ack(const Frame& frame);
  void arm_ack_timer();
  void ack_soon();
  void let_go(const Inbox::Cost& cost);
  bool nothing_to_ack() const;
  void deliver(InMessage message);

  const std::shared_ptr<NodeCore> core_;
  const std::string name_;
  const SessionId id_;
  Inbox inbox_;
  bool peer_left_ = false;
  Clock::time_point heard_;
  Clock::time_point attached_;

  mutable std::mutex mutex_;
  SendQueue queue_;
  std::shared_ptr<Line> line_;
  bool ended_ = false;  // the I/O thread, which sets it, needs no lock to read it
  bool closing_ = false;
  std::atomic<bool> leave_sent_ = false;  // read without the lock
  std::string why_;
  // What the other side knows, and what it will be told with the next frame.
  std::uint64_t received_ = 0, received_told_ = 0;
  std::uint64_t unacked_bytes_ = 0;
  std::uint64_t released_[2] = {0, 0}, released_told_[2] = {0, 0};
  std::uint64_t held_[2] = {0, 0};
  bool ack_due_ = false;
  bool ping_due_ = false;
  bool timer_armed_ = false;
};

}  // namespace trireme::net
