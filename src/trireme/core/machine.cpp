#include "trireme/core/machine.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <iomanip>
#include <sched.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/proc_text.h"

namespace trireme {
namespace {

constexpr const char* kCgroups = "/sys/fs/cgroup";

std::string read_or_empty(const std::string& path) {
  return read_text_file(path).value_or("");
}

std::string architecture() {
  utsname names{};
  return uname(&names) == 0 ? names.machine : "unknown processor";
}

int cores_of(pid_t pid) {
  int cores = static_cast<int>(allowed_cpus(pid).size());
  if (cores == 0) {
    cores = static_cast<int>(std::thread::hardware_concurrency());
  }
  if (const int quota = cpu_quota(); quota > 0) {
    cores = std::min(cores, quota);
  }
  return std::max(1, cores);
}

}  // namespace

std::vector<int> allowed_cpus(pid_t pid) {
  std::vector<int> ids;
  // The kernel refuses a set smaller than its own, and machines with more than
  // cpu_set_t's 1024 CPUs exist: so try larger ones.
  for (std::size_t sets = 1; sets <= 64 && ids.empty(); sets *= 2) {
    std::vector<cpu_set_t> cpus(sets);
    const std::size_t bytes = sets * sizeof(cpu_set_t);
    if (sched_getaffinity(pid, bytes, cpus.data()) != 0) {
      continue;
    }
    for (std::size_t id = 0; id < bytes * 8; ++id) {
      if (CPU_ISSET_S(id, bytes, cpus.data())) {
        ids.push_back(static_cast<int>(id));
      }
    }
  }
  return ids;
}

int cpu_quota() {
  const auto quota = find_cpu_quota(read_or_empty("/proc/self/cgroup"), kCgroups);
  return quota ? static_cast<int>(std::clamp(std::floor(*quota), 1.0, 1e6)) : 0;
}

int available_cores() {
  return cores_of(0);
}

int launcher_cores() {
  return cores_of(::getppid());
}

int threads_per_rank(int cores, int ranks) {
  return std::max(1, cores / std::max(1, ranks));
}

std::uint64_t available_memory_bytes() {
  const auto limit = find_memory_limit(read_or_empty("/proc/self/cgroup"), kCgroups);
  const std::uint64_t memory = parse_memory_total(read_or_empty("/proc/meminfo"));
  return limit && (memory == 0 || *limit < memory) ? *limit : memory;
}

Machine describe_machine() {
  Machine machine;
  machine.cpu = parse_cpu_model(read_or_empty("/proc/cpuinfo"));
  if (machine.cpu.empty()) {
    machine.cpu = architecture();
  }
  machine.cores = available_cores();
  machine.memory_bytes = available_memory_bytes();
  return machine;
}

std::string to_string(const Machine& machine) {
  std::ostringstream out;
  out << machine.cpu << ", " << machine.cores
      << (machine.cores == 1 ? " core, " : " cores, ");
  if (machine.memory_bytes == 0) {
    out << "unknown memory";
  } else {
    constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
    out << std::fixed << std::setprecision(1)
        << static_cast<double>(machine.memory_bytes) / kGiB << " GiB";
  }
  return out.str();
}

double load_average() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

SharedMemoryLimits shared_memory_limits(const std::string& path) {
  struct statvfs room {};
  if (statvfs(path.c_str(), &room) != 0) {
    throw NotSupported(text(
        "[core] expected a file system at ",
        in_quotes(path),
        " for shared memory, got ",
        errno_text(errno),
        "; mount a tmpfs there, or run the ranks as threads"));
  }
  const std::uint64_t block = room.f_frsize;
  return {.total_bytes = block * room.f_blocks, .free_bytes = block * room.f_bavail};
}

std::uint64_t process_start_time(pid_t pid) {
  const auto stat =
      parse_process_stat(read_or_empty(text("/proc/", pid > 0 ? pid : 0, "/stat")));
  return stat && !stat->ended() ? stat->start_time : 0;
}

bool process_ended(pid_t pid, std::uint64_t start_time) {
  if (pid <= 0) {
    return true;
  }
  if (::kill(pid, 0) != 0 && errno == ESRCH) {
    return true;
  }
  // Nothing to be read: descriptors may have run out, or /proc may be closed to us. It
  // was alive a moment ago, so it is not called dead.
  const auto stat = parse_process_stat(read_or_empty(text("/proc/", pid, "/stat")));
  if (!stat) {
    return false;
  }
  return stat->ended() || (start_time != 0 && stat->start_time != start_time);
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "?";
}

std::int64_t kernel_number() {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char letter : read_or_empty("/proc/sys/kernel/random/boot_id"))
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3U;
  return static_cast<std::int64_t>(hash);
}

std::uint64_t peak_memory_kib(pid_t pid) {
  return parse_kib(read_or_empty(text("/proc/", pid, "/status")), "VmHWM");
}

}  // namespace trireme
