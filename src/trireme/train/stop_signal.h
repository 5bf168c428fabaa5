// SIGTERM and SIGUSR1 as a question that the loop asks between steps.
#pragma once

namespace trireme::train {

/// While it lives, SIGTERM and SIGUSR1 only raise a flag. One at a time in a process:
/// signals are the process's.
///
///     StopSignal stop;
///     while (!done && !stop.raised()) step();
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool raised() const;
};

}  // namespace trireme::train
