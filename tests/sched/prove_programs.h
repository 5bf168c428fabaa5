// Lowered programs that were broken on purpose, and a way to run them for real.
#pragma once
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "helpers.h"
#include "trireme/sched/lower.h"

namespace trireme::sched {

/// Draws a lowered program and damages it `times` times: swaps neighbours, drops or
/// moves a send or receive. What is left can still be read from a file.
inline Schedule random_program(std::mt19937& random, int times) {
  const auto below = [&random](size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(random);
  };
  Schedule program = lower(random_size(random, 4, 2).make(), {.sharding = false});
  for (int i = 0; i < times; ++i) {
    auto& list = program.actions[below(program.actions.size())];
    if (list.size() < 2)
      continue;
    const size_t at = below(list.size() - 1);
    const Action action = list[at];
    const bool message = is_send(action.kind()) || is_receive(action.kind());
    const size_t how = below(6);
    if (how < 3 || !message) {
      std::swap(list[at], list[at + 1]);
      continue;
    }
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
    if (how < 5)
      list.insert(
          list.begin() + static_cast<std::ptrdiff_t>(below(list.size() + 1)), action);
  }
  return program;
}

/// Runs a lowered program with a thread a rank and a queue a channel. A send waits
/// while its queue is full; with queues of 0 it waits until its message is taken.
class Threads {
 public:
  Threads(const Schedule& program, int capacity)
      : program_(program), capacity_(capacity), ranks_(program.actions.size()) {}

  /// Whether all ranks end, every message is the one that was expected, and none is
  /// left.
  bool run() {
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < ranks_; ++rank)
      threads.emplace_back([this, rank] { run_rank(rank); });
    for (std::thread& thread : threads)
      thread.join();
    for (const auto& [key, queue] : queues_)
      failed_ = failed_ || !queue.empty();
    return !failed_;
  }

 private:
  using Key = std::tuple<int, int, bool>;  // from rank, to rank, activations
  using Message = std::pair<int, int>;     // from stage, microbatch

  void run_rank(size_t rank) {
    std::unique_lock lock(mutex_);
    for (const Action& action : program_.actions[rank]) {
      if (failed_)
        break;
      if (is_send(action.kind()))
        send(action, lock);
      else if (is_receive(action.kind()))
        receive(action, lock);
    }
    ++ended_;
    look_for_stuck();
  }

  void send(const Action& action, std::unique_lock<std::mutex>& lock) {
    const bool forward = action.kind() == ActionKind::SendForward;
    const int other = action.stage() + (forward ? 1 : -1);
    if (other < 0 || other >= program_.stages() ||
        program_.owner(other) == program_.owner(action.stage()))
      return;
    auto& queue =
        queues_[{program_.owner(action.stage()), program_.owner(other), forward}];
    auto& taken =
        taken_[{program_.owner(action.stage()), program_.owner(other), forward}];
    if (capacity_ > 0)
      wait(lock, [&] { return queue.size() < static_cast<size_t>(capacity_); });
    if (failed_)
      return;
    queue.emplace_back(action.stage(), action.microbatch());
    const size_t mine = taken + queue.size();
    changed();
    if (capacity_ == 0)
      wait(lock, [&] { return taken >= mine; });
  }

  void receive(const Action& action, std::unique_lock<std::mutex>& lock) {
    const bool forward = action.kind() == ActionKind::ReceiveForward;
    const int other = action.stage() + (forward ? -1 : 1);
    if (other < 0 || other >= program_.stages() ||
        program_.owner(other) == program_.owner(action.stage()))
      return;
    const Key key{program_.owner(other), program_.owner(action.stage()), forward};
    auto& queue = queues_[key];
    wait(lock, [&] { return !queue.empty(); });
    if (failed_)
      return;
    if (queue.front() != Message{other, action.microbatch()})
      failed_ = true;
    queue.pop_front();
    ++taken_[key];
    changed();
  }

  // Everybody who waits looks again, and is counted again if it still has to wait.
  void changed() {
    waiting_ = 0;
    ++version_;
    wake_.notify_all();
  }

  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, const Ready& ready) {
    while (!failed_ && !ready()) {
      const size_t seen = version_;
      ++waiting_;
      look_for_stuck();
      wake_.wait(lock, [&] { return failed_ || version_ != seen; });
    }
  }

  // All that have not ended wait, and nothing has changed since each of them looked.
  void look_for_stuck() {
    if (waiting_ > 0 && waiting_ + ended_ == ranks_) {
      failed_ = true;
      wake_.notify_all();
    }
  }

  const Schedule& program_;
  int capacity_;
  size_t ranks_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::map<Key, std::deque<Message>> queues_;
  std::map<Key, size_t> taken_;
  size_t waiting_ = 0;
  size_t ended_ = 0;
  size_t version_ = 0;
  bool failed_ = false;
};

}  // namespace trireme::sched
