// Where functions run.
#pragma once
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
};

}  // namespace trireme::rpc
