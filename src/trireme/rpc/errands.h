// Things to do soon, on threads of their own, because they may take a while.
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace trireme::rpc {

/// Runs errands at their time on a few threads, which are started when they are first
/// needed: one that takes long does not hold the others up. Thread-safe.
///
///     Errands errands(4);
///     errands.at(Errands::Clock::now(), [] { dial(); });
class Errands {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Errands(std::size_t most_threads) : most_threads_(most_threads) {}
  ~Errands() { close(); }
  Errands(const Errands&) = delete;
  Errands& operator=(const Errands&) = delete;

  /// Runs `errand` then, or a little later. After close() it does nothing. What an
  /// errand throws is logged.
  void at(Clock::time_point time, std::function<void()> errand);
  /// Forgets what has not begun, and waits for the rest. Not from an errand.
  void close();

 private:
  void run();
  void wait_until(Clock::time_point time, std::unique_lock<std::mutex>& lock);

  const std::size_t most_threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Clock::time_point, std::function<void()>> waiting_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool closed_ = false;
};

}  // namespace trireme::rpc
