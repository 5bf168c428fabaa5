// A program run as a child: started, watched for a limited time, its output kept.
#pragma once
#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "trireme/core/deadline.h"
#include "trireme/core/environment.h"

namespace trireme::launch {

/// What to run.
struct ChildStart {
  /// The program, looked for in PATH when it has no slash, and its arguments.
  std::vector<std::string> command;
  /// Set on top of this process's variables.
  Environment::Variables variables;
  /// After this it is killed.
  std::chrono::milliseconds limit = std::chrono::minutes(1);
  /// Text in its output whose time of arrival is wanted; empty: none.
  std::string mark{};
};

/// What a program has left behind.
struct ChildResult {
  int exit_code = 0;
  /// The signal that ended it, or 0; SIGKILL if it ran out of time.
  int signal = 0;
  bool out_of_time = false;
  std::string out;
  std::string err;
  /// When the mark had come, if it did.
  std::optional<std::chrono::steady_clock::time_point> marked{};

  bool ok() const { return exit_code == 0 && signal == 0; }
};

/// A running program. Killed when this object goes before it has ended.
class ChildProcess {
 public:
  /// Starts it; NotSupported if that cannot be done.
  explicit ChildProcess(const ChildStart& start);
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }
  /// Waits for its end, once.
  ChildResult wait();

 private:
  bool drain(ChildResult& result);
  bool ends_in_time() const;
  void keep(std::string& text, std::string_view fresh, ChildResult& result) const;
  void close_pipes();

  pid_t pid_ = -1;
  /// The reading ends of its stdout and stderr.
  std::array<int, 2> pipes_{-1, -1};
  std::string mark_;
  Deadline deadline_;
};

/// Runs a program to its end.
///
///     run_child({.command = {"git", "status"}}).out;
ChildResult run_child(const ChildStart& start);

/// How a child failed, in words: "exit code 127: cannot open shared object file".
std::string failure_text(const ChildResult& result);

}  // namespace trireme::launch
