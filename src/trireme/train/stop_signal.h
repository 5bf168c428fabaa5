// SIGTERM, SIGUSR1 and Ctrl-C as a question that the loop asks between steps.
#pragma once

namespace trireme::train {

/// While it lives, SIGTERM, SIGUSR1 and SIGINT ask for an end in order. Before defer()
/// the process leaves at once with an exit code that says so: there is nothing to save
/// yet, and a rank that still waits for others to start must not outlive them. After it
/// they raise a flag, and only a SIGINT that follows another signal ends the process at
/// once, as a person expects of a second Ctrl-C. A SIGINT that was ignored stays so:
/// that is how shells keep Ctrl-C from jobs in the background. One at a time in a
/// process, and in those that it forks.
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

  /// `notice`, a literal, goes to stderr with the first SIGINT; null: nothing does.
  void defer(const char* notice = nullptr) const;
  bool raised() const;
};

}  // namespace trireme::train
