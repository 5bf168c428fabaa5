#include "trireme/pipe/overlap_thread.h"

#include <chrono>

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>

#include "trireme/memory/account.h"

namespace trireme::pipe {
namespace {

// Longer than it takes to hand over, shorter than a time slice.
constexpr auto kSpin = std::chrono::microseconds(50);

}  // namespace

OverlapThread::~OverlapThread() {
  if (!thread_.joinable())
    return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    busy_.store(true);
  }
  changed_.notify_all();
  thread_.join();
}

void OverlapThread::run_both(
    const std::function<void()>& here, const std::function<void()>& there) {
  if (!thread_.joinable()) {
    const int threads = at::get_num_threads();
    // Here first: after a fork, torch's pool is made anew by the first call, and not
    // for two threads at once.
    at::set_num_threads(threads);
    thread_ = std::thread(&OverlapThread::loop, this, threads);
  }
  // The other half has the caller's settings (grad mode, autocast, dispatch keys) and
  // charges its memory to the same rank.
  const at::ThreadLocalState state;
  const std::function<void()> with_state =
      [&, account = memory::MemoryAccount::current()] {
        const at::ThreadLocalStateGuard guard(state);
        const memory::AccountScope scope(account);
        there();
      };
  {
    const std::lock_guard lock(mutex_);
    work_ = &with_state;
    busy_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
  std::exception_ptr mine;
  try {
    here();
  } catch (...) {
    mine = std::current_exception();
  }
  wait_until(false);  // also after an exception: the other half uses our memory
  const std::exception_ptr theirs = std::exchange(error_, nullptr);
  if (mine || theirs)
    std::rethrow_exception(mine ? mine : theirs);
}

void OverlapThread::wait_until(bool busy) {
  const auto end = std::chrono::steady_clock::now() + kSpin;
  while (busy_.load(std::memory_order_acquire) != busy) {
    if (std::chrono::steady_clock::now() < end)
      continue;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return busy_.load() == busy; });
  }
}

void OverlapThread::loop(int threads) {
  at::set_num_threads(threads);  // each thread has its own number
  while (true) {
    wait_until(true);
    {
      const std::lock_guard lock(mutex_);
      if (ending_)
        return;
    }
    try {
      (*work_)();
    } catch (...) {
      error_ = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex_);
      busy_.store(false, std::memory_order_release);
    }
    changed_.notify_all();
  }
}

}  // namespace trireme::pipe
