// The worker of `trireme bench dist-autograd`: a process whose calls gradients cross.
#pragma once
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/bench/dist_autograd_hybrid.h"
#include "trireme/bench/rpc_worker.h"
#include "trireme/comm/group.h"
#include "trireme/rpc/agent.h"

namespace trireme::bench {

/// What all workers have to do. bench/peers/dist_autograd.py reads the same, apart from
/// `wire` and `mode`.
struct GradientJob {
  /// One forward and backward: "multiply", of two tensors at worker 1; "chain", through
  /// `calls` workers, of which each calls the next; "fan_out", of `calls` products that
  /// are all asked for before the first is waited for, of all other workers in turn.
  /// Worker 0 begins, and times it. "hybrid": see dist_autograd_hybrid.h.
  std::string op = "multiply";
  /// "host" or "plain": see RpcJob.
  std::string wire = "host";
  /// "exact", "fast", or "static": exact with BackwardOptions::static_graph.
  std::string mode = "exact";
  std::int64_t floats = 1024;
  int calls = 1;
  int warm_up = 1;
  int repetitions = 1;
};

std::string to_line(const GradientJob& job);
/// InvalidArgument for a line that is no job.
GradientJob parse_gradient_job(const std::string& line);

/// One of the workers of a world. Agents live on from job to job.
class GradientWorker {
 public:
  GradientWorker(comm::Group world, RpcMeeting meeting);
  /// Shuts down with the others.
  ~GradientWorker();
  /// The seconds of each repetition; none of a worker that only serves. Computes once
  /// before, and throws unless all gradients are right.
  std::vector<double> work(const GradientJob& job);

 private:
  using Step = std::function<void()>;
  rpc::Agent& agent(const std::string& wire);
  Step prepare(const GradientJob& job, const rpc::Agent& agent);

  comm::Group world_;
  comm::Group trainers_;
  RpcMeeting meeting_;
  std::shared_ptr<HybridParts> parts_ = std::make_shared<HybridParts>();
  std::map<std::string, std::unique_ptr<rpc::Agent>> agents_;
  /// Of the last job, since making it ready takes time.
  std::unique_ptr<HybridTrainer> trainer_;
  std::string trainer_wire_;
};

/// The worker process: its rank and the job key come from the environment. Reads jobs,
/// answers each with one row. Returns its exit code.
int run_gradient_worker(std::istream& in, std::ostream& out);

}  // namespace trireme::bench
