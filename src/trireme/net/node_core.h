// What a node does on its I/O thread: accepts, dials, greets, and keeps sessions alive.
#pragma once
#include <condition_variable>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "trireme/core/buffer_pool.h"
#include "trireme/core/error.h"
#include "trireme/net/line.h"
#include "trireme/net/listener.h"
#include "trireme/net/log_limit.h"
#include "trireme/net/node.h"
#include "trireme/net/reactor.h"

namespace trireme::net {

/// What a Receiver has thrown: its session ends, and nobody tries again.
class ReceiverFailed : public Error {
 public:
  using Error::Error;
};

class NodeCore : public std::enable_shared_from_this<NodeCore> {
 public:
  NodeCore(NodeOptions options, Receiver& receiver);

  const NodeOptions& options() const { return options_; }
  Reactor& reactor() { return reactor_; }
  BufferPool& pool() { return pool_; }

  // From any thread.

  void listen();
  Peer connect(
      const std::string& name,
      const Address& address,
      Deadline deadline,
      const std::function<void()>& check);
  void close();
  const std::vector<Address>& addresses() const { return addresses_; }
  std::uint64_t turned_away() const { return turned_away_.load(); }

  // From the I/O thread, by lines and sessions.

  /// Calls the receiver; what it throws comes out as ReceiverFailed.
  template <class Call>
  auto ask(const Call& call) {
    try {
      return call(receiver_);
    } catch (const std::exception& error) {
      throw ReceiverFailed(error.what());
    }
  }
  void tell_lost(const Peer& peer, Ending ending, const std::string& why);

  void greeted(Line& line, const Hello& theirs);
  void welcomed(Line& line, const Hello& theirs);
  void refused(Line& line, const std::string& why);
  void failed(Line& line, const std::string& why, bool damaged);
  void receiver_failed(Line& line, const std::string& why);
  void peer_left(Line& line);
  void lose(
      const std::shared_ptr<Session>& session, Ending ending, const std::string& why);
  void start_leaving(const std::shared_ptr<Session>& session);
  void fell_silent(
      const std::shared_ptr<Session>& session, Reactor::Clock::time_point heard);

 private:
  using SessionPtr = std::shared_ptr<Session>;
  /// A connection that has not said yet who it is, and how long it may take to.
  struct Stranger {
    std::shared_ptr<Line> line;
    Reactor::Clock::time_point until;
  };
  void take_stranger(FileDescriptor socket);
  std::shared_ptr<Line> least_promising();
  void limit_strangers();
  std::string no_greeting() const;
  void forget_stranger(const Line& line);
  void turn_away(const Line& line, const std::string& why);
  void note_turned_away(const std::string& remote, const std::string& why);
  void check_greeting(const Line& line, const Hello& theirs) const;
  void warn(std::string line);
  void inform(std::string line);
  void tell_rest();
  void limit_handshake(const std::shared_ptr<Line>& line);
  void limit_connecting(const std::shared_ptr<Line>& line);
  static void tune(int fd, const Endpoint& peer);
  void dial(const SessionPtr& session);
  void start_dial(const SessionPtr& session);
  void await_dial(
      const SessionPtr& session,
      std::future<void>& connected,
      Deadline deadline,
      const std::function<void()>& check);
  void dial_later(const SessionPtr& session);
  void wait_for_return(const SessionPtr& session, Reactor::Clock::time_point until);
  void give_up(const SessionPtr& session);
  void refuse_dial(const SessionPtr& session, const std::string& why);
  void forget_session(const Session& session);
  void tick();
  void close_all();
  static bool must_return(const Session& session);
  void stop_listening();

  const NodeOptions options_;
  Receiver& receiver_;
  BufferPool pool_;
  Reactor reactor_;
  std::vector<Address> addresses_;
  std::atomic<std::uint64_t> turned_away_{0};

  // The I/O thread's own.
  std::vector<std::shared_ptr<Listener>> listeners_;
  std::list<Stranger> strangers_;  // in the order in which they came
  bool strangers_timed_ = false;
  std::minstd_rand chance_{std::random_device{}()};
  std::map<SessionId, SessionPtr> sessions_;
  bool closing_ = false;
  Reactor::Clock::time_point next_tick_{};
  // Warnings are about strangers and peers that went wrong; one says enough.
  LogLimit warnings_{1};
  LogLimit informations_{8};

  std::mutex mutex_;
  std::condition_variable emptied_;
  bool empty_ = false;  // closing, and no session is left
};

}  // namespace trireme::net
