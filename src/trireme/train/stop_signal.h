// SIGTERM and SIGUSR1 as a question that the loop asks between steps.
#pragma once

namespace trireme::train {

/// While it lives, SIGTERM and SIGUSR1 ask for an end in order. Before defer() the
/// process leaves at once with an exit code that says so: there is nothing to save yet,
/// and a rank that still waits for others to start must not outlive them. After it they
/// raise a flag. One at a time in a process, and in those that it forks.
///
///     StopSignal stop(75);
///     join_the_others();
///     stop.defer();
///     while (!done && !stop.raised()) step();
class StopSignal {
 public:
  explicit StopSignal(int exit_code);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  void defer() const;
  bool raised() const;
};

}  // namespace trireme::train
