#include "trireme/train/stop_signal.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <unistd.h>

#include "trireme/core/error.h"

namespace trireme::train {
namespace {

constexpr std::array kAsk = {SIGTERM, SIGUSR1, SIGINT};

// A handler can reach nothing else.
std::atomic<bool> raised_flag{false};
std::atomic<bool> deferred{false};
std::atomic<int> code{0};
std::atomic<const char*> notice_text{nullptr};
std::atomic<bool> in_use{false};
std::array<struct sigaction, kAsk.size()> old_actions;

void on_signal(int signal) {
  if (!deferred.load(std::memory_order_relaxed))
    ::_exit(code.load(std::memory_order_relaxed));
  const bool again = raised_flag.exchange(true, std::memory_order_relaxed);
  if (signal != SIGINT)
    return;
  if (again)
    ::_exit(128 + SIGINT);
  if (const char* notice = notice_text.load(std::memory_order_relaxed))
    (void)!::write(STDERR_FILENO, notice, std::strlen(notice));
}

}  // namespace

StopSignal::StopSignal(int exit_code) {
  TRIREME_ASSERT(!in_use.exchange(true));
  raised_flag = false;
  deferred = false;
  notice_text = nullptr;
  code = exit_code;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kAsk.size(); ++i) {
    ::sigaction(kAsk[i], nullptr, &old_actions[i]);
    if (kAsk[i] != SIGINT || old_actions[i].sa_handler != SIG_IGN)
      ::sigaction(kAsk[i], &action, nullptr);
  }
}

StopSignal::~StopSignal() {
  for (size_t i = 0; i < kAsk.size(); ++i)
    ::sigaction(kAsk[i], &old_actions[i], nullptr);
  in_use = false;
}

void StopSignal::defer(const char* notice) const {
  notice_text.store(notice, std::memory_order_relaxed);
  deferred.store(true, std::memory_order_relaxed);
}

bool StopSignal::raised() const {
  return raised_flag.load(std::memory_order_relaxed);
}

}  // namespace trireme::train
