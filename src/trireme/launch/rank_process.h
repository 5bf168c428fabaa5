// Starts the process of one rank.
#pragma once
#include <csignal>
#include <functional>
#include <string>
#include <sys/resource.h>
#include <sys/types.h>
#include <vector>

#include "trireme/core/environment.h"

namespace trireme::launch {

/// What ranks run: a program with its arguments, or a function of this one.
struct RankBody {
  /// The executable file.
  std::string program;
  /// What the program finds in argv, its name included.
  std::vector<std::string> arguments;
  /// In place of a program: given the rank, returns the exit code.
  std::function<int(int rank)> function;
};

/// What the keeper changes for itself and a rank must find as it was.
struct ProcessState {
  sigset_t signals;
  struct sigaction on_pipe;
  struct sigaction on_child;
  rlimit files;

  /// Of the calling thread, now.
  static ProcessState now();
  void restore() const;
};

/// All that the process of one rank begins with.
struct RankStart {
  int rank = 0;
  const RankBody* body = nullptr;
  Environment::Variables variables;
  /// The CPUs to run on; empty: as the launcher.
  std::vector<int> cpus;
  /// What become its stdin, stdout and stderr; -1: the launcher's.
  int in = -1;
  int out = -1;
  int err = -1;
  /// Closes what is the launcher's own; for a function, which gets all that is open.
  std::function<void()> leave;
};

/// Forks; the child becomes the rank, in a process group of its own, and dies with this
/// thread. Error if there can be no more processes.
pid_t start_rank(const RankStart& start, const ProcessState& state);

}  // namespace trireme::launch
