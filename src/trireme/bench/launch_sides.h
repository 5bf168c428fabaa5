// Who starts the ranks of `bench launch`: our launcher, torchrun, or nobody.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::bench {

/// One start of a job, in microseconds from the command on.
struct LaunchTimes {
  /// Until all ranks have met at their first barrier.
  double barrier = 0;
  /// Until the command has ended.
  double total = 0;
};

/// What rank 0 prints after the barrier, and what finds it among other lines.
inline constexpr const char* kBarrierMark = "barrier at ns ";

/// The commands of `ranks` ranks of `program` (trireme-torch).
std::vector<std::string> launcher_command(
    const std::filesystem::path& program, int ranks);
std::vector<std::string> torchrun_command(
    const std::vector<std::string>& python,
    const std::filesystem::path& program,
    int ranks);

/// Runs such a command; Error with the end of its output if it fails.
LaunchTimes time_command(const std::vector<std::string>& command);

/// The same ranks, started one by one without a launcher.
LaunchTimes time_by_hand(const std::filesystem::path& program, int ranks);

/// The most memory, in KiB, that the launcher's own processes take while `ranks` ranks
/// run.
double launcher_memory(const std::filesystem::path& program, int ranks);

}  // namespace trireme::bench
