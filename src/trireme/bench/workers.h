// Long-lived worker processes: one line of JSON to each, one line back from each.
#pragma once
#include <chrono>
#include <string>
#include <sys/types.h>
#include <vector>

#include "trireme/bench/protocol.h"
#include "trireme/core/deadline.h"
#include "trireme/core/environment.h"

namespace trireme::bench {

/// How long a worker may take for one answer.
inline constexpr std::chrono::milliseconds kAnswerLimit = std::chrono::minutes(3);

/// How to start one worker.
struct WorkerStart {
  /// The program, looked for in PATH when it has no slash, and its arguments.
  std::vector<std::string> command;
  /// Set on top of this process's variables.
  Environment::Variables variables;
  /// Where it may run; empty: anywhere.
  std::vector<int> cpus{};
};

/// One start a rank of a world on this host, with the variables that torchrun would
/// set, a port that was free a moment ago and a run id of its own.
std::vector<WorkerStart> rank_starts(
    const std::vector<std::string>& command,
    int ranks,
    const Environment::Variables& variables);

/// The same, each on cores of its own if there are enough of them, as `trireme run`
/// starts its ranks.
std::vector<WorkerStart> pinned(std::vector<WorkerStart> starts);

struct TeamOptions {
  /// For the workers to say that they are ready.
  std::chrono::milliseconds start_limit = std::chrono::minutes(2);
  /// For a worker to end by itself, once its input has ended.
  std::chrono::milliseconds stop_limit = std::chrono::seconds(5);
};

/// The processes of one side of a benchmark. A worker says ready_line() when it is up,
/// then answers each line on its stdin by one on its stdout; in between it blocks in
/// read() and uses no CPU. Its stderr is kept and shown if something fails. None
/// outlives this object, nor this process. To be made and used by one thread, which
/// must outlive it.
///
///     WorkerTeam gloo("gloo", rank_starts({python, "comm.py"}, 2, {}));
///     Rows rows = gloo.ask(to_line(job), std::chrono::seconds(60));
class WorkerTeam {
 public:
  /// Starts all and waits until they are ready; Error or TimeoutError, with the end of
  /// their stderr, if they do not get there.
  WorkerTeam(
      std::string name,
      const std::vector<WorkerStart>& starts,
      const TeamOptions& options = {});
  ~WorkerTeam();
  WorkerTeam(const WorkerTeam&) = delete;
  WorkerTeam& operator=(const WorkerTeam&) = delete;

  /// Gives every worker the line; returns the rows of all of them, in their order.
  /// After an error the team is of no more use.
  Rows ask(const std::string& line, std::chrono::milliseconds limit);

  pid_t pid(size_t worker) const { return workers_[worker].pid; }

 private:
  struct Worker {
    pid_t pid = -1;
    int socket = -1;
    std::string unread;
  };
  void start(const WorkerStart& start);
  Rows collect(const Deadline& deadline);
  void read_some(size_t index);
  [[noreturn]] void give_up(size_t index, const std::string& got);
  std::string log_tail() const;
  void stop() noexcept;

  std::string name_;
  TeamOptions options_;
  int log_ = -1;
  bool failed_ = false;
  std::vector<Worker> workers_;
};

}  // namespace trireme::bench
