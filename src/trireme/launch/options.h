// What a job is told, on this host or several, and what came of it.
#pragma once
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/environment.h"

namespace trireme::launch {

/// More ranks than this are refused. The shm backend would refuse them too, only later.
inline constexpr int kMostRanks = 2048;

/// Which of stdout and stderr a setting is about.
struct Streams {
  bool out = false;
  bool err = false;
  bool any() const { return out || err; }
  bool operator==(const Streams&) const = default;
};

/// The streams of every rank, or of some ranks.
struct StreamChoice {
  Streams all;
  /// What differs; a rank that is not here has `all`.
  std::map<int, Streams> ranks;

  Streams of(int rank) const;
  bool any() const;
};

/// Reads torchrun's way of naming streams: "0" none, "1" stdout, "2" stderr, "3" both,
/// or by rank as "0:3,1:2". InvalidArgument names `option` on anything else.
StreamChoice parse_stream_choice(std::string_view option, std::string_view value);

/// A node that is started from here, and the command line of its launcher.
struct RemoteNode {
  std::string host;
  std::vector<std::string> command;
};

/// A job over several nodes, each with a launcher of its own, which meet at
/// Options::master_addr and master_port. Security::from_environment() protects what
/// they say.
struct Nodes {
  /// How many there are; if these differ, the job goes on with those that are there.
  int least = 1;
  int most = 1;
  /// Which one this is; 0 hosts the meeting. -1: the one whose address that is does,
  /// and the others are numbered as they come.
  int rank = -1;
  /// How long all have to come; and how long those that are enough wait for more.
  std::chrono::milliseconds join = std::chrono::minutes(5);
  std::chrono::milliseconds last_call = std::chrono::seconds(5);
  /// Nodes that node 0 starts, with this command before the host's name.
  std::vector<RemoteNode> remotes;
  /// A host that does not answer any more shall be noticed.
  std::vector<std::string> shell = {
      "ssh", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5"};
};

/// One of the programs of a job. The ranks of a job are numbered over its parts, in
/// their order.
///
///     launch::Part part{.role = "server", .ranks = 1, .command = {"./server"}};
struct Part {
  /// What its ranks find in ROLE_NAME, different for each part. Empty: the program's
  /// file name without folder and extension, or "default" if there is one part alone.
  std::string role{};
  int ranks = 1;
  /// The program (looked for in PATH if it has no slash) and its arguments.
  std::vector<std::string> command{};
};

/// How to start the ranks of a job. The defaults suit most programs.
///
///     launch::Options options{.ranks = 4, .max_restarts = 2};
struct Options {
  /// On this node; where a job is given as parts, these have their own.
  int ranks = 1;
  /// How often all ranks are started again after a failure.
  int max_restarts = 0;
  /// The time between SIGTERM and SIGKILL for ranks that have to stop.
  std::chrono::milliseconds grace = std::chrono::seconds(10);
  /// Gives each rank cores of its own, within one NUMA node where that is possible.
  /// With more ranks than cores there is nothing to give, and none is pinned.
  bool pin = true;
  /// Puts "[rank 3] " in front of each line that a rank prints; "[rank 3 trainer] "
  /// where the job has several programs.
  bool prefix = false;
  /// Streams that go to files in log_dir instead of here.
  StreamChoice redirects;
  /// Streams that go to files in log_dir and here, each line with its rank.
  StreamChoice tee;
  /// Where the files of redirects and tee go: log_dir/RUN/attempt_K/RANK/stdout.log.
  /// Empty: a folder of its own for temporary files.
  std::filesystem::path log_dir;
  /// What tells this job from others; empty: a new one.
  std::string run_id;
  /// Where a program that needs a store on the network lets rank 0 listen.
  std::string master_addr = "127.0.0.1";
  /// 0: one that is free now.
  int master_port = 0;
  /// Set for every rank, over the variables of this process.
  Environment::Variables variables;
  /// If the job has other nodes, too.
  std::optional<Nodes> nodes;

  /// Whether anything goes to files.
  bool logs() const { return redirects.any() || tee.any(); }
};

/// How a process ended.
struct Ending {
  int exit_code = 0;
  /// The signal that ended it, or 0.
  int signal = 0;
  bool core_dumped = false;

  bool good() const { return exit_code == 0 && signal == 0; }
  /// As a shell gives it: 128 + n after signal n.
  int shell_code() const { return signal != 0 ? 128 + signal : exit_code; }
  bool operator==(const Ending&) const = default;
};

/// From what waitpid() gives.
Ending ending_of(int status);
/// "exited with code 3", "was ended by SIGSEGV (core dumped)".
std::string to_string(const Ending& ending);
/// "SIGSEGV"; "signal 99" if it has no name.
std::string signal_name(int signal);

/// The rank where the trouble began.
struct Failure {
  /// Counted in the world.
  int rank = 0;
  Ending ending;
  /// The end of what it wrote to stderr.
  std::string last_lines;
};

/// What came of a job.
struct Outcome {
  /// 0 if all ranks ended well; else the failed rank's code, as a shell gives it, or
  /// 128 + n if the job was stopped by signal n (75 if all ranks answered it with
  /// that: stopped, but ready to go on); 75 too if they stopped so after a SIGUSR1 or
  /// SIGUSR2 that was passed on.
  int exit_code = 0;
  /// How often all ranks were started again.
  int restarts = 0;
  /// The last failure, also if the ranks were started again and then ended well.
  std::optional<Failure> failure;
};

}  // namespace trireme::launch
