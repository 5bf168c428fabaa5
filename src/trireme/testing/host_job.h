// A job on the hosts of a test: processes in their networks, with a launcher's
// variables.
#pragma once
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trireme/testing/hosts.h"
#include "trireme/testing/scratch_folder.h"
#include "trireme/testing/world.h"

namespace trireme::testing {

/// How the ranks of a job are started.
struct HostJobOptions {
  /// How long any call may take.
  std::chrono::seconds timeout{30};
  /// Beside those of the launcher, for all ranks.
  std::map<std::string, std::string> variables;
};

/// Gives every rank what a launcher would: its place, the address of the first host,
/// and the file of a job key. What a rank does with that is its own; comm::init() makes
/// a world of it.
///
///     HostJob job(hosts, {2, 2});
///     job.run([](const comm::Group& world) { barrier(world); });
class HostJob {
 public:
  /// `ranks[k]` ranks on host k.
  HostJob(const Hosts& hosts, std::vector<int> ranks, HostJobOptions options = {});

  int ranks() const { return static_cast<int>(host_of_.size()); }
  int host_of(int rank) const { return host_of_[static_cast<size_t>(rank)]; }
  /// The first rank of a host.
  int leader(int host) const;
  /// A host's file with the key of the job, to be changed before ranks start there.
  std::string key_file(int host) const;

  /// This process is that rank from now on.
  void become(int rank) const;
  /// Starts all ranks, each a process that runs `body` once it has become its rank.
  void start(Processes& processes, const std::function<int(int rank)>& body) const;
  /// Starts all ranks, runs `body` on each in their world, and throws InternalError
  /// naming those that do not end well.
  void run(const RankBody& body) const;

 private:
  const Hosts& hosts_;
  std::vector<int> host_of_;
  HostJobOptions options_;
  std::string name_;
  int port_;
  ScratchFolder folder_;
};

}  // namespace trireme::testing
