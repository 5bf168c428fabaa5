// What the benchmark and its workers say to each other: one line of JSON a time.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

namespace trireme::bench {

/// One row of times a rank, in seconds: what a job yields.
using Rows = std::vector<std::vector<double>>;

/// What a worker of `bench comm` has to measure. bench/peers/comm.py reads the same.
struct CommJob {
  /// "all_reduce", "ping_pong", "abort", "abort_all_reduce" (while all are at work), or
  /// "wait": rank 0 is late for a barrier, and
  /// the row is the CPU time that the rank spends until it comes. Under mpirun also
  /// "all_reduce_hosts", the ranks as two hosts, and "MPI_Allreduce", MPI's own.
  std::string op = "all_reduce";
  int64_t bytes = 4;
  /// "float32" or "bfloat16".
  std::string dtype = "float32";
  /// Whether the tensor comes from Group::allocate().
  bool in_segment = false;
  /// Repetitions without a clock, first.
  int warm_up = 1;
  int repetitions = 1;
};

/// For how long rank 0 is late in the job "wait".
inline constexpr auto kLateRank = std::chrono::seconds(2);

std::string to_line(const CommJob& job);
/// InvalidArgument for a line that is no job.
CommJob parse_comm_job(const std::string& line);

/// What a worker says when it is ready for its first job: an answer without rows.
std::string ready_line();
std::string answer_line(const Rows& rows);
std::string error_line(const std::string& what);

/// Does one job, given as a line, and yields its row.
using JobWork = std::function<std::vector<double>(const std::string& line)>;
/// What a worker does all its life: `start` makes ready, then each line is answered by
/// its row. An error is the last answer. The exit code.
int serve_jobs(
    std::istream& in, std::ostream& out, const std::function<JobWork()>& start);

/// The rows of an answer. Throws Error with the worker's own words if it failed, and
/// InvalidArgument for a line that is no answer.
Rows parse_answer(const std::string& line);

/// The slowest rank of every repetition. The rows must be equally long.
std::vector<double> slowest(const Rows& rows);

/// From the first to the last of every repetition, for rows of points in time.
std::vector<double> spread(const Rows& rows);

}  // namespace trireme::bench
