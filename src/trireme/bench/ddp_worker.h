// The worker of `trireme bench ddp`: one rank that trains the same model with data
// parallelism and without.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/group.h"

namespace trireme::bench {

/// What a worker of `bench ddp` has to do. bench/peers/ddp.py reads the same.
struct DdpJob {
  /// A sequence of linear layers with bias, so two parameters a layer.
  int layers = 64;
  int64_t width = 64;
  int64_t batch = 32;
  /// Pairs of steps without a clock, first.
  int warm_up = 1;
  int repetitions = 1;
};

std::string to_line(const DdpJob& job);
/// InvalidArgument for a line that is no job.
DdpJob parse_ddp_job(const std::string& line);

/// One rank's work, until there are no more jobs.
class DdpWorker {
 public:
  explicit DdpWorker(comm::Group world);
  ~DdpWorker();
  /// Times in seconds: of all steps with data parallelism, then of as many without. The
  /// two take turns, so that both see the same disturbances.
  std::vector<double> work(const DdpJob& job);

 private:
  struct Prepared;
  comm::Group world_;
  std::string key_;
  std::unique_ptr<Prepared> prepared_;
};

/// The worker process: reads jobs, answers each with one row. Returns its exit code.
int run_ddp_worker(std::istream& in, std::ostream& out);

}  // namespace trireme::bench
