// Two hosts on one machine: network namespaces that a link joins.
#pragma once
#include <string>
#include <vector>

#include "trireme/bench/workers.h"

namespace trireme::bench {

/// What joins two hosts: nothing, for ranks of one host; a link as fast as this machine
/// is; or one of 1 Gbit/s each way, as network cards have.
enum class HostLink { None, Free, Gigabit };

/// Makes the namespaces and the link; removes them when it goes. Only root can.
///
///     TwoHosts hosts;
///     WorkerTeam team("tcp", hosts.place(rank_starts(command, 4, variables)));
class TwoHosts {
 public:
  /// The link's interface, by the same name on both hosts.
  static constexpr const char* kInterface = "bench0";

  /// Why they cannot be made here; empty if they can.
  static std::string missing(HostLink link = HostLink::Free);

  /// Error if `ip` or `tc` fails.
  explicit TwoHosts(HostLink link = HostLink::Free);
  ~TwoHosts();
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  /// The same workers, half of them on each host, who meet on the first.
  std::vector<WorkerStart> place(std::vector<WorkerStart> starts) const;

 private:
  void limit() const;
  void remove() const noexcept;
  std::string host(int number) const;

  std::string name_;
};

}  // namespace trireme::bench
