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

/// The same in two steps, for a job of several nodes: the name is chosen once, and each
/// node makes a folder of it. Where nodes share a file system, that is one folder.
std::string run_folder_name(const std::string& run_id);
std::filesystem::path share_run_folder(
    const std::filesystem::path& log_dir, const std::string& name);
/// InvalidArgument if there can be no folder in `log_dir`.
void check_log_dir(const std::filesystem::path& log_dir);

/// RUN/attempt_K/RANK/stdout.log or stderr.log.
std::filesystem::path log_file(
    const std::filesystem::path& run, int attempt, int rank, bool err);

/// Opens it for writing and makes its folder; InvalidArgument if that fails.
int open_log_file(const std::filesystem::path& file);

}  // namespace trireme::launch
