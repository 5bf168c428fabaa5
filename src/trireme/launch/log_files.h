// The files that ranks' output goes to, laid out as torchrun lays them out.
#pragma once
#include <filesystem>
#include <string>

#include "trireme/launch/options.h"

namespace trireme::launch {

/// The folder of one job's files; made anew, so that no older file is overwritten.
/// InvalidArgument if `log_dir` cannot be written to.
///
///     const auto run = make_run_folder("logs", "job7");   // logs/job7_a8Fk2Q
std::filesystem::path make_run_folder(
    const std::filesystem::path& log_dir, const std::string& run_id);

/// RUN/attempt_K/RANK/stdout.log or stderr.log.
std::filesystem::path log_file(
    const std::filesystem::path& run, int attempt, int rank, bool err);

/// Opens it for writing and makes its folder; InvalidArgument if that fails.
int open_log_file(const std::filesystem::path& file);

}  // namespace trireme::launch
