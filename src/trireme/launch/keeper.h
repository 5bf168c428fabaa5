// The process between launcher and ranks: it starts, watches and stops them. It is one
// of its own, so that no rank outlives a launcher that is killed: it sees its end of
// the socket close, and it inherits whatever processes the ranks leave behind.
#pragma once
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "trireme/core/deadline.h"
#include "trireme/core/rank_roll.h"
#include "trireme/launch/console.h"
#include "trireme/launch/job.h"
#include "trireme/launch/options.h"
#include "trireme/launch/rank_process.h"
#include "trireme/launch/relay.h"
#include "trireme/launch/roles.h"
#include "trireme/launch/variables.h"
#include "trireme/launch/word.h"

namespace trireme::launch {

/// All that a keeper needs to know, found out before it is forked.
struct KeeperPlan {
  /// With a run id, and the number of ranks of all parts.
  Options options;
  /// The parts of the job, and what the ranks of each run.
  std::vector<RoleShare> roles;
  std::vector<RankBody> bodies;
  /// The folder for logs; empty if none are written, and in a job of several nodes.
  std::filesystem::path run_folder;
  /// The CPUs of each rank; empty: none is pinned.
  std::vector<std::vector<int>> cpus;
  int cores = 1;
  /// For the ranks of a job on this node alone, if nothing else is set.
  std::string job_key;
  ProcessState state;
};

/// Runs a job to its end. To be used in a process of its own, which is a subreaper, has
/// the signals of kStopSignals and SIGCHLD blocked and SIGPIPE ignored.
class Keeper {
 public:
  /// `front` is a socket of packets: a signal's number (an int) is passed on to the
  /// ranks; its end means that the launcher is gone. In a job of several nodes words of
  /// the others come and go there, too.
  Keeper(const KeeperPlan& plan, int front);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  Outcome run();

 private:
  using Clock = Deadline::Clock;

  void carry_out(const Step& step);
  void start_all();
  JobPlace place_of_attempt() const;
  int world_rank(int rank) const { return place_.first_rank + rank; }
  bool several_programs() const { return plan_.roles.size() > 1; }
  std::string prefix_of(int rank) const;
  std::string name_of(int rank) const;
  void start_one(int rank, const JobPlace& place, const Environment& inherited);
  int make_stream(int rank, bool err);
  void signal_all(int signal);
  void wait_for_events(std::optional<Clock::time_point> wake);
  void take_signals();
  void take_request();
  void take_word(const Word& word);
  void take_place(const NodePlace& place);
  void take_failure(const Word& word);
  void tell(const Word& word) const;
  void tell_if_obeyed();
  void pass(int signal);
  void stop(int signal);
  void reap();
  void note_failure();
  std::string consequence() const;
  void report_failure();
  std::string stderr_end(int rank) const;
  void sweep();
  void flush_consoles();
  void finish_output();
  void leave();
  void say(const std::string& line);

  const KeeperPlan& plan_;
  int front_;
  int signals_ = -1;
  int nothing_ = -1;    // /dev/null
  bool alone_ = false;  // the launcher is gone
  int stops_ = 0;       // how often somebody has asked to stop
  Job job_;
  const bool led_;
  /// In a job of several nodes.
  NodePlace place_;
  /// For logs, as soon as it is known.
  std::filesystem::path run_folder_;
  Console out_;
  Console err_;
  Relay relay_;
  std::map<pid_t, int> rank_of_;
  std::vector<pid_t> pid_of_;
  Clock::time_point started_;
  RankRoll roll_;
  std::optional<Failure> failure_;
  bool noted_ = false;
  /// Of the failure that was noted; empty once it is told.
  std::string report_;
  bool others_left_ = false;  // when it was noted
  bool elsewhere_ = false;    // it is another node's
  bool told_obeyed_ = false;
};

/// What the keeper is called in lists of processes.
inline constexpr const char* kKeeperName = "rank-keeper";

/// The signals that ask a job to stop.
inline constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr bool is_stop_signal(int signal) {
  return std::find(std::begin(kStopSignals), std::end(kStopSignals), signal) !=
         std::end(kStopSignals);
}

}  // namespace trireme::launch
