// Our own side of `bench schedule`: makes, checks and times one schedule after another.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>

namespace trireme::bench {

/// The size of an Interleaved1F1B. bench/peers/schedule.py reads the same.
struct ScheduleJob {
  int ranks = 1;
  int stages_per_rank = 1;
  int microbatches = 1;
};

std::string to_line(const ScheduleJob& job);
/// InvalidArgument for a line that is no job.
ScheduleJob parse_schedule_job(const std::string& line);

/// What one schedule took.
struct ScheduleCost {
  double seconds = 0;
  /// Of the lowered schedule.
  int64_t actions = 0;
};

/// Generates, validates, lowers, proves and simulates it. InternalError if one of them
/// finds that it is not what it should be.
ScheduleCost time_schedule(const ScheduleJob& job);

/// The worker process: reads jobs, answers each with one row, seconds and actions.
/// Returns its exit code.
int run_schedule_worker(std::istream& in, std::ostream& out);

}  // namespace trireme::bench
