// How a thread waits for the first of several channels: it looks at all of them, and
// sleeps until one of their bells rings.
#pragma once
#include <chrono>
#include <cstdint>
#include <vector>

namespace trireme::comm {

/// A rank's bell. Peers ring it when they do something for that rank, as long as it
/// listens. Any number of threads may listen.
class Doorbell {
 public:
  virtual ~Doorbell() = default;
  /// Begins to listen: what happens from here on rings.
  virtual void listen() = 0;
  virtual void stop_listening() noexcept = 0;
  /// For what happens to the rank elsewhere than where its peers are; from any thread
  /// of its process.
  virtual void ring() = 0;
  /// How often it has rung.
  virtual uint32_t rings() const = 0;
  /// Waits until it has rung more often than `seen`, at most `limit`. Throws what the
  /// world was stopped by.
  virtual void await_ring(uint32_t seen, std::chrono::milliseconds limit) = 0;
};

/// One wait for any of several things. Look, and if nothing is there, wait() and look
/// again:
///
///     EventWait event;
///     for (auto& port : ports) event.add(port->doorbell());
///     while (!look()) event.wait();
class EventWait {
 public:
  EventWait() = default;
  ~EventWait();
  EventWait(const EventWait&) = delete;
  EventWait& operator=(const EventWait&) = delete;

  /// A bell that rings for one of them. Null where there is none: then all are asked
  /// again and again.
  void add(Doorbell* bell);
  /// Something was there: pauses begin short again.
  void found() { pause_ = std::chrono::microseconds(0); }
  /// Returns when something may have happened since the last look, or a little later
  /// without a reason. The first time it only begins to listen.
  void wait();

 private:
  std::vector<Doorbell*> bells_;
  std::vector<uint32_t> seen_;
  bool must_ask_ = false;
  bool listening_ = false;
  std::chrono::microseconds pause_{0};
};

}  // namespace trireme::comm
