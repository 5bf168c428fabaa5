// `trireme bench comm`: collectives and channels beside gloo through PyTorch.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "trireme/bench/measure.h"
#include "trireme/bench/protocol.h"
#include "trireme/bench/two_hosts.h"

namespace trireme::bench {

/// Who measures: our processes over shm, the same as `trireme run` starts and pins
/// them, our threads over local, or gloo's processes. Tcp: our processes, each as on a
/// host of its own. TcpHosts and GlooHosts: processes in two network namespaces, and
/// the same over a link of 1 Gbit/s. Mpi: our processes under mpirun, which do the
/// peer's side too: MPI polls while it waits, so a second job would disturb the first.
enum class CommTeam {
  Shm,
  Launched,
  Local,
  Gloo,
  Tcp,
  TcpHosts,
  GlooHosts,
  TcpGigabit,
  GlooGigabit,
  Mpi
};
constexpr HostLink link_of(CommTeam team) {
  if (team == CommTeam::TcpHosts || team == CommTeam::GlooHosts)
    return HostLink::Free;
  if (team == CommTeam::TcpGigabit || team == CommTeam::GlooGigabit)
    return HostLink::Gigabit;
  return HostLink::None;
}
constexpr bool is_gloo(CommTeam team) {
  return team == CommTeam::Gloo || team == CommTeam::GlooHosts ||
         team == CommTeam::GlooGigabit;
}

/// One side of a case.
struct CommSide {
  CommTeam team = CommTeam::Shm;
  CommJob job;
};

/// What is measured, and what is asked of it.
struct CommCase {
  std::string name;
  int ranks = 2;
  CommSide ours;
  std::optional<CommSide> peer;
  std::optional<double> goal;
  /// In `unit`.
  std::optional<double> limit;
  std::string unit = "us";
};

/// All cases, those of one number of ranks together.
std::vector<CommCase> comm_cases();
/// Those of `--backend tcp`.
std::vector<CommCase> comm_tcp_cases();
/// Those of `--backend mpi`.
std::vector<CommCase> comm_mpi_cases();

/// Measures them; InvalidArgument when `only` leaves none. Progress goes to stderr.
BenchReport bench_comm(const MeasureOptions& options);

}  // namespace trireme::bench
