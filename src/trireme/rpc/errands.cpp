#include "trireme/rpc/errands.h"

#include <exception>
#include <utility>

#include "trireme/core/log.h"

namespace trireme::rpc {

void Errands::at(Clock::time_point time, std::function<void()> errand) {
  const std::lock_guard lock(mutex_);
  if (closed_)
    return;
  waiting_.emplace(time, std::move(errand));
  if (idle_ < waiting_.size() && threads_.size() < most_threads_)
    threads_.emplace_back([this] { run(); });
  changed_.notify_all();  // one that waits for a later errand may be busy by then
}

// The time by value: meanwhile the errand that it belongs to may go.
void Errands::wait_until(Clock::time_point time, std::unique_lock<std::mutex>& lock) {
  changed_.wait_until(lock, time);
}

void Errands::run() {
  std::unique_lock lock(mutex_);
  while (!closed_) {
    if (waiting_.empty() || waiting_.begin()->first > Clock::now()) {
      ++idle_;
      if (waiting_.empty())
        changed_.wait(lock);
      else
        wait_until(waiting_.begin()->first, lock);
      --idle_;
      continue;
    }
    const std::function<void()> errand = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    lock.unlock();
    try {
      errand();
    } catch (const std::exception& error) {
      TRIREME_LOG(warn, "rpc") << "an errand failed: " << error.what();
    }
    lock.lock();
  }
}

void Errands::close() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    waiting_.clear();
    threads.swap(threads_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads)
    thread.join();
}

}  // namespace trireme::rpc
