// Where functions run.
#pragma once
#include <cstddef>
#include <span>
#include <utility>

#include "trireme/rpc/small_function.h"

namespace trireme::rpc {

/// A piece of work. What it throws is logged and goes no further.
using Task = SmallFunction<void()>;

/// Something that runs tasks: a pool, or a loop of the program's own.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Runs the task at some time, on some thread, or destroys it unrun when it ends
  /// first. False if it takes no more: then the task is still the caller's.
  virtual bool try_run(Task&& task) = 0;
  /// The same for many; how many of the first it has taken.
  virtual std::size_t try_run_all(std::span<Task> tasks) {
    std::size_t taken = 0;
    while (taken < tasks.size() && try_run(std::move(tasks[taken])))
      ++taken;
    return taken;
  }
};

}  // namespace trireme::rpc
