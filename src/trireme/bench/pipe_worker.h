// Our own side of `bench pipe`: a rank that trains what it is asked for.
#pragma once
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "trireme/bench/pipe_model.h"
#include "trireme/comm/group.h"

namespace trireme::bench {

/// What a worker of `bench pipe` has to do. bench/peers/pipe.py reads the same.
struct PipeJob {
  /// "step": times of whole steps. "profile": the costs of the stages (see
  /// kCostsPerStage). "timing": what it takes to time the actions of a step. All others
  /// time two things on rank 0, which take turns, so that whatever disturbs one does so
  /// to the other as well; the answer has a time of the first and one of the second,
  /// again and again. "split_fused" and "split_engine": a backward of the whole model
  /// by our executor in two halves, and by our executor at once or by torch's engine.
  /// "overlap": a forward and a backward of two microbatches, both at once, and one
  /// after the other. "graph": a backward of the graph that model.layer names, by our
  /// executor and by torch's engine.
  std::string op = "step";
  PipeModel model;
  /// Empty: one process, rank 0, does it all.
  std::string schedule;
  int warm_up = 1;
  int repetitions = 1;
};

std::string to_line(const PipeJob& job);
/// InvalidArgument for a line that is no job.
PipeJob parse_pipe_job(const std::string& line);

/// The costs of one stage in an answer to "profile", in seconds, one after the other;
/// the time that a message travels stands after the last one.
inline constexpr size_t kCostsPerStage = 4;  // F, I, W, B

/// One rank's work, until there are no more jobs.
class PipeWorker {
 public:
  explicit PipeWorker(comm::Group world);
  ~PipeWorker();
  /// Times in seconds, or costs.
  std::vector<double> work(const PipeJob& job);

 private:
  struct Prepared;
  std::vector<double> work_alone(
      const PipeJob& job, const std::function<double()>& once);
  std::vector<double> work_in_turn(
      const PipeJob& job, const std::function<double(bool first)>& once);
  comm::Group world_;
  /// This rank alone.
  comm::Group alone_;
  std::string key_;
  std::unique_ptr<Prepared> prepared_;
};

/// The worker process: reads jobs, answers each with one row. Returns its exit code.
int run_pipe_worker(std::istream& in, std::ostream& out);

}  // namespace trireme::bench
