// How `trireme` hands over to the programs that load libtorch: `trireme-torch` and
// `trireme-bench`.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "trireme/launch/child.h"

namespace trireme::cli {

/// Where trireme-torch belongs: beside the running executable.
std::filesystem::path torch_program();

/// Becomes `program`: replaces this process, so that signals, exit codes and the
/// terminal are its own. Comes back only by throwing: NotSupported if there is no such
/// program.
[[noreturn]] void become(
    const std::filesystem::path& program, const std::vector<std::string>& arguments);

/// Runs `program` as a child to its end, or for `limit`, and keeps what it prints.
/// NotSupported if there is no such program.
launch::ChildResult run_torch(
    const std::filesystem::path& program,
    const std::vector<std::string>& arguments,
    std::chrono::milliseconds limit);

}  // namespace trireme::cli
