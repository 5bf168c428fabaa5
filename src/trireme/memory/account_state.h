// The counters behind a MemoryAccount. Every block is charged to one of them when it is
// allocated and remembers which, so whichever thread frees it lowers the right one.
//
// Counters are never destroyed but used again: a block may outlive all handles of its
// account, and a straggler may still look at one whose last block has gone. A handle
// counts as a large number of bytes, so one atomic operation a charge does for the sum
// and for the lifetime.
#pragma once
#include <atomic>
#include <cstdint>

namespace trireme::memory {

class AccountState {
 public:
  /// What an account may have changed without the process having heard of it.
  static constexpr std::int64_t kReportStep = 256 << 10;

  /// The counters of the process, which is told of all others'.
  static AccountState& process() noexcept;
  /// Counters at zero, with a handle.
  static AccountState& open();
  /// The last handle has gone. When the last block has too, open() takes it again.
  void close() noexcept;

  void charge(std::int64_t bytes) noexcept {
    const std::int64_t now = without_handle(live_.fetch_add(bytes) + bytes);
    raise_peak(now);
    if (this != &process_ && now - reported() >= kReportStep) {
      report(now);
    }
  }

  void discharge(std::int64_t bytes) noexcept {
    const std::int64_t left = live_.fetch_sub(bytes) - bytes;
    const std::int64_t now = without_handle(left);
    if (this != &process_ && (reported() - now >= kReportStep || left == 0)) {
      report(now);
    }
  }

  /// The bytes that are charged now; for the process those of all accounts.
  std::int64_t live() const noexcept;
  /// The most that live() was since the last reset. For the process it is exact only
  /// to kReportStep for each open account, because a line that all threads write would
  /// cost them more than the rest of the allocator; without accounts it is exact.
  std::int64_t peak() const noexcept;
  void reset_peak() noexcept;

  /// What the calling thread charges to.
  static AccountState& current() noexcept {
    return current_ == nullptr ? process_ : *current_;
  }
  /// Changes that; null stands for the process.
  static void set_current(AccountState* account) noexcept { current_ = account; }

 private:
  // More than any number of bytes, and one bit.
  static constexpr std::int64_t kHandle = std::int64_t{1} << 62;

  constexpr explicit AccountState(std::int64_t live) : live_(live) {}

  // Keeps the sign: the process can be below zero for a moment, when two reports of one
  // account overtake each other.
  static constexpr std::int64_t without_handle(std::int64_t live) {
    return (live << 2) >> 2;
  }

  std::int64_t reported() const { return reported_.load(std::memory_order_relaxed); }
  std::int64_t own_live() const { return without_handle(live_.load()); }
  // Sequential consistency keeps a charge and reset_peak() from missing each other; on
  // x86 the addition is a full fence anyway.
  void raise_peak(std::int64_t now) noexcept {
    std::int64_t peak = peak_.load();
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
  }
  void report(std::int64_t now) noexcept;

  static AccountState process_;
  static thread_local constinit AccountState* current_;

  alignas(64) std::atomic<std::int64_t> live_;
  std::atomic<std::int64_t> peak_{0};
  // The part of live_ that the process has been told. Sums telescope, so reports may
  // overtake each other.
  std::atomic<std::int64_t> reported_{0};
  AccountState* next_ = nullptr;
};

}  // namespace trireme::memory
