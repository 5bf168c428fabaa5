// What tests of stores share: patience, changes and threads.
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "trireme/net/store.h"

namespace trireme::net {

/// Long enough for a loaded machine under a sanitizer.
inline Deadline store_patience() {
  return Deadline::after(std::chrono::seconds(60));
}

/// Collects what a watch reports.
class StoreChanges {
 public:
  Store::Callback callback() {
    return [this](const StoreChange& change) {
      const std::lock_guard lock(mutex_);
      changes_.push_back(change);
      arrived_.notify_all();
    };
  }
  /// All changes, once there are as many.
  std::vector<StoreChange> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(
        lock, store_patience().remaining(), [&] { return changes_.size() >= count; });
    return changes_;
  }
  /// All changes, once the last is this one.
  std::vector<StoreChange> wait_for_last(const StoreChange& last) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, store_patience().remaining(), [&] {
      return !changes_.empty() && changes_.back() == last;
    });
    return changes_;
  }
  std::vector<StoreChange> now() {
    const std::lock_guard lock(mutex_);
    return changes_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<StoreChange> changes_;
};

inline StoreChange was_set(std::string key, std::string value) {
  return {StoreChange::Kind::Set, std::move(key), std::move(value)};
}

inline StoreChange was_erased(std::string key) {
  return {StoreChange::Kind::Erased, std::move(key), ""};
}

/// Runs `work(i)` on `count` threads, and waits for them.
template <class Work>
void on_threads(int count, const Work& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&work, i] { work(i); });
  for (std::thread& thread : threads)
    thread.join();
}

inline double seconds_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

}  // namespace trireme::net
