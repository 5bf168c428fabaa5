// What this machine has and what this process may use of it, read from Linux. Text is
// parsed by pure functions, so that tests need no other machine.
#pragma once
#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace trireme {

/// The ids of the CPUs that the affinity of a process allows, of this thread's if it is
/// 0; empty if the kernel does not tell.
std::vector<int> allowed_cpus(pid_t pid = 0);

/// How many threads of this process can run at once: the cores that its affinity
/// allows, or the whole cores of its cgroup's quota if that is less; at least 1.
int available_cores();

/// The same of the process that has started this one: a launcher's, whose ranks may
/// each be bound to a part of them.
int launcher_cores();

/// The whole cores that the quota of this process's cgroup allows, at least 1; 0 if it
/// has none. All processes of the cgroup share them.
int cpu_quota();

/// How many threads each of `ranks` ranks should use where all have `cores` cores
/// together: an even share, at least one. The one place that decides it: for ranks that
/// are processes (OMP_NUM_THREADS of the launcher, rank_threads()) and for threads
/// (comm::run_local()).
int threads_per_rank(int cores, int ranks);

/// The memory that this process may use: the machine's, or the least limit of its
/// cgroups if that is less; 0 if unknown.
std::uint64_t available_memory_bytes();

/// The machine as a benchmark or a bug report should name it.
///
///     std::cerr << to_string(describe_machine());  // AMD EPYC, 2 cores, 23.5 GiB
struct Machine {
  /// The model, as the kernel names it, or the architecture.
  std::string cpu;
  /// What available_cores() says.
  int cores = 1;
  /// What available_memory_bytes() says.
  std::uint64_t memory_bytes = 0;
};

/// This machine.
Machine describe_machine();

/// One line: "AMD EPYC, 2 cores, 23.5 GiB".
std::string to_string(const Machine& machine);

/// What this machine calls itself; "?" if it does not say.
std::string host_name();

/// A number for the kernel that runs here, until it is booted again: containers of one
/// machine, and its network namespaces, have the same.
std::int64_t kernel_number();

/// How many processes wanted to run over the last minute; 0 if unknown.
double load_average();

/// The room for shared memory.
struct SharedMemoryLimits {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
};

/// The room in the file system at `path`; NotSupported when there is none.
SharedMemoryLimits shared_memory_limits(const std::string& path = "/dev/shm");

/// When process `pid` started, in the kernel's ticks since boot. A pid is used again,
/// but not with the same start time, so both together name a process. 0 if there is no
/// such process, or if it has ended and only its parent has not noticed (a zombie).
std::uint64_t process_start_time(pid_t pid);

/// Whether the process that has started as `pid` at `start_time` (0: whenever) has
/// ended; a zombie has. False while that cannot be known: unknown is not dead.
bool process_ended(pid_t pid, std::uint64_t start_time);

/// The most memory that process `pid` has had, in KiB; 0 if there is no such process.
std::uint64_t peak_memory_kib(pid_t pid);

}  // namespace trireme
