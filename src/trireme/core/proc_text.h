// Readers of the text files in which Linux describes machines, processes and cgroups.
// They touch nothing but their arguments, so that tests can feed them any text.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// The content of a small file; nothing if it cannot be read, as a folder.
std::optional<std::string> read_text_file(const std::filesystem::path& path);

/// The first "model name" in the text of /proc/cpuinfo, blanks squeezed; empty if none.
std::string parse_cpu_model(std::string_view cpuinfo);

/// MemTotal in the text of /proc/meminfo, in bytes; 0 if it is missing or odd.
std::uint64_t parse_memory_total(std::string_view meminfo);

/// The value of a line like "VmHWM:   5120 kB" in the text of /proc/PID/status or
/// /proc/meminfo; 0 if it is missing or odd.
std::uint64_t parse_kib(std::string_view status, std::string_view name);

/// The CPUs in the kernel's short form: "0-3,8" is 0, 1, 2, 3, 8. Empty for anything
/// else.
std::vector<int> parse_cpu_list(std::string_view list);

/// What /proc/PID/stat says of a process.
struct ProcessStat {
  /// 'R', 'S', …; 'Z' is a zombie: it has ended, and its parent has not noticed.
  char state = '?';
  int parent = 0;
  int session = 0;
  /// In the kernel's ticks since boot.
  std::uint64_t start_time = 0;

  bool ended() const { return state == 'Z' || state == 'X'; }
};

/// Reads the text of /proc/PID/stat, in which the name of the program may hold any
/// blanks and parentheses; nothing for other text.
std::optional<ProcessStat> parse_process_stat(std::string_view stat);

/// The cores that the text of cpu.max (cgroup 2) allows: "150000 100000" is 1.5;
/// nothing for "max 100000" or other text.
std::optional<double> parse_cpu_max(std::string_view cpu_max);

/// The bytes that the text of memory.max (cgroup 2) or memory.limit_in_bytes (cgroup 1)
/// allows; nothing for "max" or other text. Version 1 writes a number beyond any memory
/// for "no limit".
std::optional<std::uint64_t> parse_memory_max(std::string_view memory_max);

/// The path of this process in the text of /proc/self/cgroup, for `controller` ("cpu"),
/// or for cgroup 2 if it is empty. "/" if it is not there, or leads out of what is
/// mounted.
std::string parse_cgroup_path(std::string_view cgroup, std::string_view controller);

/// The least CPU quota, in cores, on the way from this process's cgroup to the root,
/// with cgroups mounted at `mount` (/sys/fs/cgroup); nothing if there is no quota.
std::optional<double> find_cpu_quota(
    std::string_view cgroup, const std::filesystem::path& mount);

/// The same for memory, in bytes.
std::optional<std::uint64_t> find_memory_limit(
    std::string_view cgroup, const std::filesystem::path& mount);

}  // namespace trireme
