#include "trireme/memory/owner_gate.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace trireme::memory {
namespace {

bool membarrier(int command) noexcept {
  return syscall(SYS_membarrier, command, 0, 0) == 0;
}

}  // namespace

void OwnerGate::await_owner_outside() const noexcept {
  while (inside_.load(std::memory_order_acquire)) {
    std::this_thread::yield();
  }
}

bool OwnerGate::fence_all() noexcept {
  // Registering holds for children made by fork() too.
  static const bool registered = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
  return registered && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

void OwnerGate::wait_outside() noexcept {
  do {
    leave();
    while (closed_.load(std::memory_order_acquire)) {
      std::this_thread::yield();
    }
    inside_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } while (closed_.load(std::memory_order_acquire));
}

}  // namespace trireme::memory
