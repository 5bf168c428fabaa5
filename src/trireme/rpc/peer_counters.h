// What has passed between this worker and another.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "trireme/rpc/latency.h"

namespace trireme::rpc {

enum class Status : std::uint8_t;  // protocol.h

/// Counts by any thread, without a lock.
class PeerCounters {
 public:
  /// A call goes out.
  void sent() { add(sent_, 1); }
  /// It has ended, that long after it went out.
  void ended(Status status, std::chrono::nanoseconds time);
  /// A call from there has come in, and was answered.
  void received() { add(received_, 1); }
  void answered() { add(answered_, 1); }
  void bytes_out(std::uint64_t bytes) { add(bytes_out_, bytes); }
  void bytes_in(std::uint64_t bytes) { add(bytes_in_, bytes); }

  /// All of them at one time, or nearly.
  struct Figures {
    std::uint64_t sent = 0;
    /// Calls that have ended, by Status.
    std::array<std::uint64_t, 7> ended{};
    std::uint64_t received = 0;
    std::uint64_t answered = 0;
    std::uint64_t bytes_out = 0;
    std::uint64_t bytes_in = 0;

    std::uint64_t of(Status status) const {
      return ended[static_cast<std::size_t>(status)];
    }
    /// Of this worker's calls: those that have returned a value, those that have not,
    /// and those that have not ended.
    std::uint64_t returned() const { return ended[0]; }
    std::uint64_t failed() const;
    std::uint64_t waiting() const;
    /// Of the other's calls, those that have not been answered.
    std::uint64_t running() const;
    Figures& operator+=(const Figures& other);
  };
  Figures figures() const;
  /// How long the calls took that have returned a value.
  const Latency& latency() const { return latency_; }

  /// One line for people.
  std::string text() const;

 private:
  using Counter = std::atomic<std::uint64_t>;
  static void add(Counter& counter, std::uint64_t more) {
    counter.fetch_add(more, std::memory_order_relaxed);
  }

  Counter sent_{0};
  std::array<Counter, 7> ended_{};
  Counter received_{0};
  Counter answered_{0};
  Counter bytes_out_{0};
  Counter bytes_in_{0};
  Latency latency_;
};

}  // namespace trireme::rpc
