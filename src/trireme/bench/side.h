// One side of a benchmark: ranks on this host that are started when they are needed.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "trireme/bench/workers.h"

namespace trireme::bench {

/// The ranks of ours, or of the peer's, with one thread each.
///
///     RankSide torch("torch", 2, peer.command, peer.missing);
///     std::vector<double> times = slowest(torch.ask(line, std::chrono::minutes(1)));
class RankSide {
 public:
  /// `missing` says why there is no such side; empty: there is.
  RankSide(
      std::string name,
      int ranks,
      std::vector<std::string> command,
      std::string missing = {});

  const std::string& missing() const { return missing_; }
  /// Gives every rank the line and collects their rows. Starts them before if they do
  /// not run. Error if one fails.
  Rows ask(const std::string& line, std::chrono::milliseconds limit);
  /// After a failure of the peer: there is no such side any more.
  void give_up(const std::string& why);
  /// Ends the processes; the next ask() starts new ones.
  void stop() { team_.reset(); }

 private:
  std::string name_;
  int ranks_;
  std::vector<std::string> command_;
  std::string missing_;
  std::unique_ptr<WorkerTeam> team_;
};

/// What the processes of both sides get: one thread, and a network that exists.
Environment::Variables side_variables();

}  // namespace trireme::bench
