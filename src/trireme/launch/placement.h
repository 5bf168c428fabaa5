// Which cores each rank gets.
#pragma once
#include <filesystem>
#include <vector>

namespace trireme::launch {

/// A logical CPU: hyperthreads of one core are several of them.
struct Cpu {
  int id = 0;
  int node = 0;
  /// Equal for the CPUs of one core, different for different cores.
  int core = 0;
};

/// The CPUs of each rank, in order of id. Disjoint, as even as whole cores allow, and
/// within one NUMA node when there are at least as many ranks as nodes; a node that is
/// so small that its rank would have less than all others stays free then. With more
/// ranks than cores, hyperthreads are shared out; with more ranks than those, the
/// result is empty.
///
///     plan_cores(topology, 2);   // {{0, 1, 2, 3}, {4, 5, 6, 7}}
std::vector<std::vector<int>> plan_cores(const std::vector<Cpu>& cpus, int ranks);

/// Describes the CPUs with these ids, as /sys/devices/system (or the same tree
/// elsewhere, for tests) does; what is missing there counts as one node, each CPU a
/// core.
std::vector<Cpu> read_cpus(
    const std::vector<int>& ids,
    const std::filesystem::path& system = "/sys/devices/system");

}  // namespace trireme::launch
