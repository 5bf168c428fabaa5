// The second thread of a rank, for the backward half of an OVERLAP_F_B.
#pragma once
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace trireme::pipe {

/// Runs one function beside the rank's own thread. Starts with the first one, with as
/// many threads inside operators as the rank's has. Spins a little before it sleeps,
/// because the next function often comes soon.
class OverlapThread {
 public:
  OverlapThread() = default;
  ~OverlapThread();
  OverlapThread(const OverlapThread&) = delete;
  OverlapThread& operator=(const OverlapThread&) = delete;

  /// Runs `there` on the other thread and `here` on this one. Returns when both have
  /// ended; throws what one of them threw, `here` first.
  void run_both(const std::function<void()>& here, const std::function<void()>& there);

 private:
  void loop(int threads);
  void wait_until(bool busy);

  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  /// Whether a function is there to run; read without the lock while spinning.
  std::atomic<bool> busy_{false};
  bool ending_ = false;
  const std::function<void()>* work_ = nullptr;
  std::exception_ptr error_;
};

}  // namespace trireme::pipe
