// The one thread of a group that runs its async operations, in order.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "trireme/comm/work.h"

namespace trireme::comm {

/// Starts its thread with the first task. Every task ends by its own deadline, so
/// waiting for the queue ends too.
class Worker {
 public:
  /// `prepare` runs first on the new thread.
  explicit Worker(std::function<void()> prepare) : prepare_(std::move(prepare)) {}
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

  std::function<void()> prepare_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> queue_;
  std::atomic<int> pending_{0};
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace trireme::comm
