// The worker of `trireme bench net`: one of two processes that talk over loopback.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/bench/net_node_end.h"

namespace trireme::bench {

/// What both workers have to do.
struct NetJob {
  /// "socket" and "openssl": the limits; "plain" and "key": ours, without protection
  /// and with a job key.
  std::string wire = "plain";
  /// "ask": rank 0 sends `bytes`, and times until a thread that waits has the answer.
  /// "chain": of ours, the same without such a thread, on the I/O thread. "overtake":
  /// points in time, when 4 B left rank 0 behind a message of `bytes`, and when they
  /// came. "idle": by how many KiB each worker grows with `connections` more that
  /// nobody uses.
  std::string op = "ask";
  int64_t bytes = 64;
  int64_t reply = 64;
  int connections = 0;
  /// Where rank 0 listens if this wire is new.
  int port = 0;
  int warm_up = 1;
  int repetitions = 1;
};

std::string to_line(const NetJob& job);
/// InvalidArgument for a line that is no job.
NetJob parse_net_job(const std::string& line);

/// Rank 0 or 1. Connections and memory live on from job to job.
class NetWorker {
 public:
  NetWorker(int rank, net::JobKey key) : rank_(rank), key_(std::move(key)) {}
  /// One number a repetition: seconds, points in time, or KiB. Of "ask" and
  /// "chain" rank 1 knows nothing, and says 0.
  std::vector<double> work(const NetJob& job);

 private:
  std::vector<double> ask(const NetJob& job);
  std::vector<double> overtake(const NetJob& job);
  std::vector<double> stay_idle(const NetJob& job);
  net::Side side() const {
    return rank_ == 0 ? net::Side::Dialer : net::Side::Acceptor;
  }
  bool is_ours(const NetJob& job) const;
  std::unique_ptr<NodeEnd> make_node(const NetJob& job) const;
  NetEnd& limit_end(const NetJob& job);
  NodeEnd& node_end(const NetJob& job);
  NetEnd& end(const NetJob& job);

  int rank_;
  net::JobKey key_;
  std::map<std::string, std::unique_ptr<NetEnd>> limits_;
  std::map<std::string, std::unique_ptr<NodeEnd>> nodes_;
  std::vector<std::byte> message_, reply_;
};

/// The worker process: its rank and the job key come from the environment. Reads jobs,
/// answers each with one row. Returns its exit code.
int run_net_worker(std::istream& in, std::ostream& out);

}  // namespace trireme::bench
