// The one thread of a group that runs its async operations, in order.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "trireme/comm/work.h"

namespace trireme::comm {

/// Starts its thread with the first task, or at once if it has something to do while it
/// is idle. Every task ends by its own deadline, so
/// waiting for the queue ends too.
class Worker {
 public:
  /// What is called again and again while there is no task; it must not throw.
  struct Idle {
    std::chrono::milliseconds every{0};
    std::function<void()> call{};
  };
  /// `prepare` runs first on the new thread.
  explicit Worker(std::function<void()> prepare) : Worker(std::move(prepare), Idle{}) {}
  Worker(std::function<void()> prepare, Idle idle);
  /// Runs what is queued, then ends the thread.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  Work push(std::function<void()> task);
  /// Whether something that was pushed has not ended.
  bool busy() const { return pending_.load(std::memory_order_acquire) != 0; }
  /// Returns when everything that was pushed has ended.
  void drain();

 private:
  struct Task {
    std::function<void()> run;
    std::shared_ptr<Work::State> state;
  };
  void loop();
  /// Returns when there is a task, or none will come.
  void await_task(std::unique_lock<std::mutex>& lock);

  std::function<void()> prepare_;
  Idle idle_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> queue_;
  std::atomic<int> pending_{0};
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace trireme::comm
