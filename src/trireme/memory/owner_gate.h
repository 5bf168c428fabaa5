// Lets one thread, the owner, work on its data without a lock or a fence, and another
// look in now and then: the visitor pays for both, with a system call that makes every
// core of the process pass a fence (membarrier).
//
//   owner                        visitor (one at a time)
//   gate.enter();                gate.close();
//   …                            if (OwnerGate::fence_all()) {
//   gate.leave();                  gate.await_owner_outside();
//                                  …
//                                }
//                                gate.open();
//
// The owner writes `inside` and then reads `closed`; the visitor writes `closed` and
// then reads `inside`. With the fence between the visitor's two on every core, one of
// them sees the other.
#pragma once
#include <atomic>

namespace trireme::memory {

class OwnerGate {
 public:
  void enter() noexcept {
    inside_.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // for the compiler only
    if (closed_.load(std::memory_order_acquire)) [[unlikely]] {
      wait_outside();
    }
  }
  void leave() noexcept { inside_.store(false, std::memory_order_release); }

  void close() noexcept { closed_.store(true, std::memory_order_relaxed); }
  /// Returns when the owner is not inside. It stays for some instructions only.
  void await_owner_outside() const noexcept;
  void open() noexcept { closed_.store(false, std::memory_order_release); }

  /// Whether the system has done it: Linux 4.14 can, unless a sandbox forbids it.
  static bool fence_all() noexcept;

  /// The owner has gone without leaving: it was a thread of the parent process.
  void forget_owner() noexcept { inside_.store(false, std::memory_order_relaxed); }

 private:
  void wait_outside() noexcept;

  std::atomic<bool> inside_{false};
  std::atomic<bool> closed_{false};
};

}  // namespace trireme::memory
