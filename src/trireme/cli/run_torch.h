// How `trireme` hands over to `trireme-torch`, the program that loads libtorch.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::cli {

/// Where trireme-torch belongs: beside the running executable.
std::filesystem::path torch_program();

/// Becomes `program`: replaces this process, so that signals, exit codes and the
/// terminal are its own. Comes back only by throwing: NotSupported if there is no such
/// program.
[[noreturn]] void become_torch(
    const std::filesystem::path& program, const std::vector<std::string>& arguments);

/// What a program has left behind.
struct ChildResult {
  int exit_code = 0;
  /// The signal that ended it, or 0; SIGKILL if it ran out of time.
  int signal = 0;
  bool out_of_time = false;
  std::string out;
  std::string err;

  bool ok() const { return exit_code == 0 && signal == 0; }
};

/// Runs `program` as a child to its end, or for `limit`, and keeps what it prints.
/// NotSupported if there is no such program.
ChildResult run_torch(
    const std::filesystem::path& program,
    const std::vector<std::string>& arguments,
    std::chrono::milliseconds limit);

/// How a child failed, in words: "exit code 127: cannot open shared object file".
std::string failure_text(const ChildResult& result);

}  // namespace trireme::cli
