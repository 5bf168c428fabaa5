#include "trireme/train/stop_signal.h"

#include <atomic>
#include <csignal>
#include <unistd.h>

#include "trireme/core/error.h"

namespace trireme::train {
namespace {

// A handler can reach nothing else.
std::atomic<bool> raised_flag{false};
std::atomic<bool> deferred{false};
std::atomic<int> code{0};
std::atomic<bool> in_use{false};
struct sigaction old_term;
struct sigaction old_usr1;

void on_signal(int) {
  if (!deferred.load(std::memory_order_relaxed))
    ::_exit(code.load(std::memory_order_relaxed));
  raised_flag.store(true, std::memory_order_relaxed);
}

}  // namespace

StopSignal::StopSignal(int exit_code) {
  TRIREME_ASSERT(!in_use.exchange(true));
  raised_flag = false;
  deferred = false;
  code = exit_code;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGTERM, &action, &old_term);
  ::sigaction(SIGUSR1, &action, &old_usr1);
}

StopSignal::~StopSignal() {
  ::sigaction(SIGTERM, &old_term, nullptr);
  ::sigaction(SIGUSR1, &old_usr1, nullptr);
  in_use = false;
}

void StopSignal::defer() const {
  deferred.store(true, std::memory_order_relaxed);
}

bool StopSignal::raised() const {
  return raised_flag.load(std::memory_order_relaxed);
}

}  // namespace trireme::train
