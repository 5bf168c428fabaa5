// The workers of `bench comm`: who they are, and how each side of a case is measured.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/bench/comm.h"
#include "trireme/bench/peer.h"
#include "trireme/bench/two_hosts.h"
#include "trireme/bench/workers.h"

namespace trireme::bench {

/// The workers of one number of ranks, started when they are first needed.
class CommTeams {
 public:
  explicit CommTeams(const std::filesystem::path& program);

  /// Why there is no gloo; empty while there is.
  const std::string& no_gloo() const { return gloo_.missing; }

  /// The times of one round in microseconds; none if it is up to gloo and there is
  /// none.
  std::vector<double> measure(const CommSide& side, int ranks);

 private:
  WorkerTeam& get(CommTeam team, int ranks);
  std::vector<WorkerStart> starts(CommTeam team, int ranks);

  std::filesystem::path program_;
  PeerCommand gloo_;
  int ranks_ = 0;
  /// Before the teams, whose processes live in it.
  std::map<HostLink, TwoHosts> hosts_;
  std::map<CommTeam, std::unique_ptr<WorkerTeam>> teams_;
};

/// Why there is no mpi here; empty if there is.
std::string missing_mpi();

/// The same ranks as one job of mpirun's, whose stdin is rank 0's.
std::vector<WorkerStart> mpirun_start(
    const std::vector<std::string>& worker,
    int ranks,
    const Environment::Variables& variables);

/// Every rank as the only one of its host: nothing but the wire is left between them.
std::vector<WorkerStart> on_hosts_of_their_own(std::vector<WorkerStart> starts);

}  // namespace trireme::bench
