#include "trireme/dist_autograd/parameter_locks.h"

#include <map>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/rpc/blocking.h"

namespace trireme::dist_autograd {

// By address, so that nobody waits for who waits for him.
std::vector<ParameterLocks::Mutex> ParameterLocks::of(
    const std::vector<at::Tensor>& parameters) {
  const std::lock_guard lock(mutex_);
  std::erase_if(locks_, [](const auto& entry) { return entry.second.expired(); });
  std::map<const void*, Mutex> sorted;
  for (const at::Tensor& parameter : parameters) {
    const void* key = parameter.unsafeGetTensorImpl();
    std::weak_ptr<std::timed_mutex>& known = locks_[key];
    Mutex mutex = known.lock();
    if (!mutex)
      known = mutex = std::make_shared<std::timed_mutex>();
    sorted[key] = std::move(mutex);
  }
  std::vector<Mutex> locks;
  for (auto& [key, mutex] : sorted)
    locks.push_back(std::move(mutex));
  return locks;
}

LocksHeld::LocksHeld(std::vector<ParameterLocks::Mutex> locks, const Deadline& deadline)
    : locks_(std::move(locks)) {
  held_.reserve(locks_.size());
  for (const ParameterLocks::Mutex& mutex : locks_) {
    std::unique_lock<std::timed_mutex> lock(*mutex, std::try_to_lock);
    if (!lock) {
      const rpc::Blocking blocking;
      if (!lock.try_lock_for(deadline.remaining()))
        throw TimeoutError(text(
            "[dist_autograd] expected parameters that no other optimizer steps within ",
            deadline.allowed().count(),
            " ms, got some that one does; look what it waits for"));
    }
    held_.push_back(std::move(lock));
  }
}

}  // namespace trireme::dist_autograd
