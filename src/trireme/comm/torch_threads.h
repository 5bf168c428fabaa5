// The threads that torch's operations use, in processes that were forked off.
#pragma once
#include <ATen/Parallel.h>

namespace trireme::comm {

/// The number of this thread; each has its own. To be called before other threads
/// start that use torch: in a process that was forked off, torch makes its pool anew at
/// the first call that sets the number, and two threads that make that call at once get
/// none ("Invalid thread pool!").
inline int settle_torch_threads() {
  const int threads = at::get_num_threads();
  at::set_num_threads(threads);
  return threads;
}

}  // namespace trireme::comm
