// The cores that ranks have together: decides how they wait.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "trireme/comm/shared/flag.h"

namespace trireme::comm {

/// What one rank may use, in a form that can lie in shared memory.
struct RankCores {
  static constexpr int kMostCpus = 1024;  // CPUs beyond are left out of the account
  /// A bit for every CPU that its affinity allows.
  std::array<uint64_t, kMostCpus / 64> cpus{};
  /// The cores of its cgroup's quota, which its ranks share; 0: no quota.
  int32_t quota = 0;

  void add(int cpu);
  /// Of the calling thread.
  static RankCores of_this_thread();
};

/// How many ranks can run at once: the CPUs that they may use between them (launchers
/// pin each rank to its own), or the least quota if that is less; at least 1.
int cores_together(std::span<const RankCores> ranks);

/// Looking saves the two system calls of a sleep; without letting others run it pays
/// only while every rank has a core.
WaitPolicy wait_policy(std::span<const RankCores> ranks);

}  // namespace trireme::comm
