#include "trireme/memory/account_state.h"

#include <algorithm>
#include <mutex>
#include <pthread.h>

namespace trireme::memory {
namespace {

// All accounts there have ever been. The list only grows at its head, so readers need
// no lock; growing takes one that a fork() finds free.
std::atomic<AccountState*> g_accounts{nullptr};
std::mutex g_growth;

void hold_growth_over_forks() {
  static const int registered = pthread_atfork(
      [] { g_growth.lock(); }, [] { g_growth.unlock(); }, [] { g_growth.unlock(); });
  static_cast<void>(registered);
}

}  // namespace

constinit AccountState AccountState::process_{0};
constinit thread_local AccountState* AccountState::current_ = nullptr;

AccountState& AccountState::process() noexcept {
  return process_;
}

AccountState& AccountState::open() {
  hold_growth_over_forks();
  const std::lock_guard lock(g_growth);
  for (AccountState* one = g_accounts.load(); one != nullptr; one = one->next_) {
    std::int64_t unused = 0;
    if (one->live_.compare_exchange_strong(unused, kHandle)) {
      one->peak_.store(0);
      return *one;
    }
  }
  auto* fresh = new AccountState(kHandle);
  fresh->next_ = g_accounts.load();
  g_accounts.store(fresh);
  return *fresh;
}

void AccountState::close() noexcept {
  if (live_.fetch_sub(kHandle) == kHandle) {
    report(0);
  }
}

std::int64_t AccountState::live() const noexcept {
  std::int64_t sum = own_live();
  if (this == &process_) {
    for (auto* one = g_accounts.load(); one != nullptr; one = one->next_) {
      sum += one->own_live() - one->reported();
    }
  }
  return sum;
}

std::int64_t AccountState::peak() const noexcept {
  return std::max(peak_.load(), live());
}

void AccountState::reset_peak() noexcept {
  if (this == &process_) {
    for (auto* one = g_accounts.load(); one != nullptr; one = one->next_) {
      one->report(one->own_live());
    }
  }
  peak_.store(live());
  // What was charged between the two steps.
  raise_peak(own_live());
}

void AccountState::report(std::int64_t now) noexcept {
  const std::int64_t change = now - reported_.exchange(now);
  const std::int64_t sum = process_.live_.fetch_add(change) + change;
  process_.raise_peak(sum);
}

}  // namespace trireme::memory
