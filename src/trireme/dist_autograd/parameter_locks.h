// Who may change a parameter: one optimizer at a time.
#pragma once
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/core/deadline.h"

namespace trireme::dist_autograd {

/// A lock for each parameter of a worker that optimizers step. Optimizers of different
/// parameters never wait for each other; those of several trainers that share some take
/// turns.
class ParameterLocks {
 public:
  using Mutex = std::shared_ptr<std::timed_mutex>;

  /// The locks of these parameters, each once, in the order in which to take them.
  std::vector<Mutex> of(const std::vector<at::Tensor>& parameters);

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, std::weak_ptr<std::timed_mutex>> locks_;
};

/// Holds locks as long as it lives. TimeoutError if they are not free by then.
class LocksHeld {
 public:
  LocksHeld(std::vector<ParameterLocks::Mutex> locks, const Deadline& deadline);

 private:
  std::vector<ParameterLocks::Mutex> locks_;  // longer than what is held of them
  std::vector<std::unique_lock<std::timed_mutex>> held_;
};

}  // namespace trireme::dist_autograd
