// Our own side of `bench comm`: a rank that measures what it is asked for.
#pragma once
#include <condition_variable>
#include <iosfwd>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "trireme/bench/protocol.h"
#include "trireme/comm/group.h"
#include "trireme/core/launch_env.h"

namespace trireme::bench {

/// Lets the ranks of one process, each a thread, work through the same lines: every
/// rank gets every line, and when all have answered one line goes out. Without a line
/// they sleep.
class Desk {
 public:
  Desk(int seats, std::istream& in, std::ostream& out);

  /// The next line, or nothing at the end. Seat 0 reads, the others wait for it.
  std::optional<std::string> next(int seat);
  /// This seat's answer to its last line.
  void answer(int seat, std::vector<double> row);
  /// This seat has failed and will not come back; the first reason goes out.
  void fail(const std::string& why);

 private:
  void send(const std::string& line);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::istream& in_;
  std::ostream& out_;
  std::optional<std::string> line_;
  int lines_ = 0;
  std::vector<int> taken_;
  Rows rows_;
  size_t answers_ = 0;
  bool failed_ = false;
};

/// The same place, with the first half of the ranks on one host and the second on
/// another.
LaunchEnv on_two_hosts(LaunchEnv place);

/// One rank's work: jobs from the desk, until there are no more. The group is the
/// rank's whole world, since the job "abort" stops and renews it.
void serve_comm(comm::Group world, Desk& desk, int seat);

/// The same for a rank that was started by a launcher, which passes nothing on but to
/// rank 0: that one has the desk, with a seat for every rank, and leads the others.
void serve_led_comm(comm::Group world, Desk& desk);

struct CommWorkerOptions {
  /// 0: this process is one rank of the world that its variables describe. Else: it is
  /// a whole world of so many threads.
  int thread_ranks = 0;
  /// Whether only rank 0 has jobs to read, as under a launcher.
  bool led = false;
};

/// The worker process: reads jobs from stdin, answers on stdout. Returns its exit code.
int run_comm_worker(const CommWorkerOptions& options = {});

}  // namespace trireme::bench
