// The handle of an operation that may still be running.
#pragma once
#include <chrono>
#include <exception>
#include <memory>

namespace trireme::comm {

/// What a collective returns. An operation that ran on the caller is finished already;
/// an async one is finished when wait() returns. Cheap to copy.
///
///     Work work = all_reduce(group, gradients, {.async = true});
///     … compute …
///     work.wait();   // rethrows what went wrong
///
/// An error that nobody waits for is logged once when the last handle goes.
class Work {
 public:
  /// An operation that is finished.
  Work() = default;

  /// Waits for the end; rethrows the operation's error. The operation has its own
  /// deadline, so this ends too.
  void wait() const;
  /// Whether it has ended, well or not.
  bool test() const;

  /// What an engine's thread reports to.
  class State;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

}  // namespace trireme::comm
