// Our own side of `bench train`: a rank that trains with the trainer's engine, or that
// samples as `trireme sample` does.
#pragma once
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/group.h"

namespace trireme::bench {

/// What a worker of `bench train` has to do. bench/peers/train.py reads the same.
struct TrainJob {
  /// "step": times of whole steps, from the batch to the new weights. "sample": times
  /// of drawing all new tokens. "tokens": the tokens themselves, to compare.
  std::string op = "step";
  /// "pipeline" (ZB-H1, a stage a rank) or "data parallel".
  std::string layout = "pipeline";
  /// A GPT-2 of about 10 million parameters.
  int64_t dim = 384;
  int64_t layers = 6;
  int64_t heads = 6;
  int64_t vocab = 256;
  int64_t sequence = 128;
  /// Samples of a step over all ranks, and of a microbatch of the pipeline.
  int64_t batch = 8;
  int64_t microbatch = 1;
  /// Of a Hugging Face model, to sample from. The peer writes its weights; where there
  /// are none we draw our own.
  std::string folder;
  int64_t prompt = 8;
  int64_t new_tokens = 128;
  int warm_up = 1;
  int repetitions = 1;
};

std::string to_line(const TrainJob& job);
/// InvalidArgument for a line that is no job.
TrainJob parse_train_job(const std::string& line);

/// One rank's work, until there are no more jobs.
class TrainWorker {
 public:
  explicit TrainWorker(comm::Group world);
  ~TrainWorker();
  /// Times in seconds, or tokens.
  std::vector<double> work(const TrainJob& job);

 private:
  struct Training;
  struct Sampling;
  void prepare(const TrainJob& job);

  comm::Group world_;
  std::string key_;
  std::unique_ptr<Training> training_;
  std::unique_ptr<Sampling> sampling_;
};

/// The worker process: reads jobs, answers each with one row. Returns its exit code.
int run_train_worker(std::istream& in, std::ostream& out);

}  // namespace trireme::bench
