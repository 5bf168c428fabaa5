// Signals that come again and again.
#pragma once
#include <chrono>
#include <signal.h>
#include <sys/time.h>

namespace trireme {

/// While it lives, SIGALRM comes every `interval` and interrupts what waits.
class AlarmScope {
 public:
  explicit AlarmScope(std::chrono::microseconds interval) {
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGALRM, &action, &before_);
    const timeval every{.tv_sec = 0, .tv_usec = interval.count()};
    const itimerval timer{.it_interval = every, .it_value = every};
    ::setitimer(ITIMER_REAL, &timer, nullptr);
  }
  ~AlarmScope() {
    const itimerval none{};
    ::setitimer(ITIMER_REAL, &none, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }
  AlarmScope(const AlarmScope&) = delete;
  AlarmScope& operator=(const AlarmScope&) = delete;

 private:
  struct sigaction before_ {};
};

}  // namespace trireme
