// Which calls may take a thread, so that calls inside of calls always find one.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

namespace trireme::rpc {

/// Keeps threads for calls that were made inside of calls. Were all threads taken by
/// calls that wait for calls of their own, on this worker and on those that they wait
/// for, nobody would ever go on. So calls of a user may take half of the threads, those
/// that they make half of the rest, and so on: the deepest always find one, do not
/// wait, and end. Whoever finds none stands in a queue, the deepest first.
///
///     auto next = admission.enter(call, depth).start;
///     for (; next; next = admission.leave())
///       run(*next);
template <class Call>
class Admission {
 public:
  /// `most` threads there are, and so many calls may stand in the queue.
  Admission(int most, std::size_t queue) : most_(most), queue_(queue) {}

  struct Entered {
    /// The one that may start now: the new one, or one that has waited longer.
    std::shared_ptr<Call> start;
    /// There is no room in the queue: nobody has taken the call.
    bool full = false;
  };
  /// A new call of that depth: 0 for those of a user, 1 for those that they make.
  Entered enter(const std::shared_ptr<Call>& call, int depth) {
    const int level = std::clamp(depth, 0, kLevels - 1);
    if (waiting_.load() == 0 && take_place(level))
      return {.start = call};
    const std::lock_guard lock(mutex_);
    if (waiting_.load() >= queue_)
      return {.full = true};
    queues_[static_cast<std::size_t>(level)].push_back(call);
    ++waiting_;
    // Who has left meanwhile has not seen it.
    return {.start = pick()};
  }

  /// A call that has left to wait for something, and goes on: its turn comes as that of
  /// a new one, but it is never turned away.
  std::shared_ptr<Call> enter_again(const std::shared_ptr<Call>& call, int depth) {
    const int level = std::clamp(depth, 0, kLevels - 1);
    const std::lock_guard lock(mutex_);
    queues_[static_cast<std::size_t>(level)].push_back(call);
    ++waiting_;
    return pick();
  }

  /// A call that was started has ended; the next one that may start, if there is one.
  std::shared_ptr<Call> leave() {
    --running_;
    if (waiting_.load() == 0)
      return nullptr;
    const std::lock_guard lock(mutex_);
    return pick();
  }

 private:
  static constexpr int kLevels = 16;

  // How many calls of that level and those above it may run: 1/2, 3/4, 7/8 … of all; so
  // deep that nothing is left to share, all.
  int limit(int level) const {
    const int kept = most_ >> (level + 1);
    return kept > 0 ? most_ - kept : most_;
  }
  bool take_place(int level) {
    for (int now = running_.load(); now < limit(level);)
      if (running_.compare_exchange_weak(now, now + 1))
        return true;
    return false;
  }
  // For who holds the lock.
  std::shared_ptr<Call> pick() {
    for (int level = kLevels - 1; level >= 0; --level) {
      auto& queue = queues_[static_cast<std::size_t>(level)];
      if (queue.empty() || !take_place(level))
        continue;
      auto call = std::move(queue.front());
      queue.pop_front();
      --waiting_;
      return call;
    }
    return nullptr;
  }

  int most_;
  std::size_t queue_;
  std::atomic<int> running_{0};
  std::atomic<std::size_t> waiting_{0};
  std::mutex mutex_;
  std::array<std::deque<std::shared_ptr<Call>>, kLevels> queues_;
};

}  // namespace trireme::rpc
