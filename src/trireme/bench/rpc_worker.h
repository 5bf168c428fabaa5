// The worker of `trireme bench rpc`: one of two processes, of which the first calls
// functions of the second.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/net/job_key.h"
#include "trireme/net/store.h"
#include "trireme/rpc/agent.h"

namespace trireme::bench {

/// What both workers have to do. bench/peers/rpc.py reads the same.
struct RpcJob {
  /// "echo": rank 0 calls a function of rank 1 that returns its argument, and times
  /// each call. "burst": the same with `calls` calls that are all made before the first
  /// is waited for. "crowd": see rpc_crowd.h.
  std::string op = "echo";
  /// "host": as two workers of one host talk that `trireme run` has started: a job key,
  /// over a Unix socket. "tls": the same over TCP, as if they were on two hosts.
  /// "plain": on one host without protection.
  std::string wire = "host";
  /// Whether the function runs on the thread that brings the call.
  bool quick = false;
  int64_t bytes = 4;
  int calls = 1;
  int clients = 1;
  double seconds = 1;
  int warm_up = 1;
  int repetitions = 1;
};

std::string to_line(const RpcJob& job);
/// InvalidArgument for a line that is no job.
RpcJob parse_rpc_job(const std::string& line);

/// The functions that rank 1 serves, and both declare.
inline const rpc::Function<at::Tensor(at::Tensor)> rpc_echo{.name = "echo"};
inline const rpc::Function<at::Tensor(at::Tensor)> rpc_quick_echo{.name = "quick_echo"};

/// Where the workers meet, and by what they know each other.
struct RpcMeeting {
  std::shared_ptr<net::Store> store;
  net::JobKey key;
};

/// An agent that talks to the others by `wire`: see RpcJob.
rpc::AgentOptions rpc_bench_agent(
    const RpcMeeting& meeting,
    const std::string& wire,
    std::string name,
    int rank,
    int world_size);

/// Throws unless the result of an echo is what was sent.
void expect_echo(const at::Tensor& sent, const at::Tensor& got);

/// Rank 0 or 1. Agents live on from job to job.
class RpcWorker {
 public:
  RpcWorker(int rank, RpcMeeting meeting);
  /// Shuts down with the other.
  ~RpcWorker();
  /// Rank 0: the seconds of each repetition, or the figures of a crowd. Rank 1 only
  /// serves, and says nothing.
  std::vector<double> work(const RpcJob& job);

 private:
  rpc::Agent& agent(const std::string& wire);
  std::vector<double> time_calls(const RpcJob& job);

  int rank_;
  RpcMeeting meeting_;
  int crowds_ = 0;
  std::map<std::string, std::unique_ptr<rpc::Agent>> agents_;
};

/// The worker process: its rank and the job key come from the environment. Reads jobs,
/// answers each with one row. Returns its exit code.
int run_rpc_worker(std::istream& in, std::ostream& out);

}  // namespace trireme::bench
