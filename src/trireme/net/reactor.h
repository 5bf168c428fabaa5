// The one thread that waits for sockets and for time.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <sys/epoll.h>
#include <thread>
#include <unordered_map>
#include <vector>

#include "trireme/core/file_descriptor.h"

namespace trireme::net {

/// Calls handlers when their sockets are ready, and functions when their time has come,
/// all on one thread. Sockets are watched edge by edge: a handler must go on until its
/// socket would block, or ask for another turn.
///
/// While things happen at short intervals the thread looks again and again instead of
/// sleeping, for to wake a core takes longer than most answers. It yields to whoever
/// wants the core.
///
/// epoll itself rather than Asio: a sender writes from its own thread, a read goes
/// straight to where the body shall lie, and a node needs nothing else of such a
/// library.
class Reactor {
 public:
  using Clock = std::chrono::steady_clock;
  class Handler {
   public:
    virtual ~Handler() = default;
    /// The socket may be read or written, or has failed; or another turn has come.
    virtual void ready() = 0;
  };

  Reactor();
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  /// Runs `task` on the thread, soon. Any thread may call it; once the thread has ended
  /// it is dropped.
  void post(std::function<void()> task);
  /// Runs what was posted, then ends the thread. Not from the thread itself.
  void stop();
  /// Whether it may look again before it sleeps. Not where threads that have work to do
  /// wait for its core. Any thread may call it.
  void set_looks(bool looks) { looks_.store(looks, std::memory_order_relaxed); }
  bool in_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

  // What follows is for the thread alone.

  /// Watches a socket until forget(); the handler is kept that long.
  void watch(int fd, std::shared_ptr<Handler> handler);
  void forget(int fd);
  /// Gives the handler of `fd` another turn after the others had theirs.
  void again(int fd);
  /// Runs `task` at that time.
  void at(Clock::time_point time, std::function<void()> task);
  /// Memory for reads, shared by all connections: what is in it is used up before the
  /// handler returns.
  std::span<std::byte> scratch() { return scratch_; }

 private:
  void loop();
  void run_posted();
  void run_due();
  int wait_time() const;
  int await(std::span<epoll_event> events);

  FileDescriptor epoll_;
  FileDescriptor bell_;  // wakes the thread for what was posted
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;
  bool stopping_ = false;
  bool ended_ = false;
  std::unordered_map<int, std::shared_ptr<Handler>> handlers_;
  std::multimap<Clock::time_point, std::function<void()>> timers_;
  std::vector<int> again_;
  std::vector<std::byte> scratch_;
  bool lively_ = false;  // the last wait was short
  std::atomic<bool> looks_{true};
  std::thread thread_;
};

}  // namespace trireme::net
