#include "trireme/core/proc_text.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "trireme/core/parse_number.h"

namespace trireme {
namespace {

constexpr std::string_view kBlanks = " \t\n";

std::vector<std::string_view> split(
    std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto start = text.find_first_not_of(separators);
    if (start == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(start);
    const auto end = std::min(text.find_first_of(separators), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::optional<double> quota_of(std::string_view quota, std::string_view period) {
  const auto used = parse_number<std::uint64_t>(quota);
  const auto of = parse_number<std::uint64_t>(period);
  if (!used || !of || *used == 0 || *of == 0) {
    return std::nullopt;
  }
  return static_cast<double>(*used) / static_cast<double>(*of);
}

template <class Value>
void keep_least(std::optional<Value>& least, std::optional<Value> other) {
  if (other && (!least || *other < *least)) {
    least = other;
  }
}

std::string_view first_word(std::string_view text) {
  const auto words = split(text, kBlanks);
  return words.empty() ? std::string_view() : words.front();
}

// The quota of one folder, in the files of either version.
std::optional<double> quota_in(const std::filesystem::path& folder) {
  if (const auto text = read_text_file(folder / "cpu.max")) {
    return parse_cpu_max(*text);
  }
  const auto quota = read_text_file(folder / "cpu.cfs_quota_us");
  const auto period = read_text_file(folder / "cpu.cfs_period_us");
  if (!quota || !period) {
    return std::nullopt;
  }
  return quota_of(first_word(*quota), first_word(*period));
}

// Where cgroups are mounted, below the usual place, and by which name they are listed.
struct CgroupTree {
  const char* folder;
  const char* controller;
};

// The folders from this process's cgroup up to the root: every level limits those
// below. Inside a container the path may be that of the host; then only the root
// exists, and it holds the container's own limit.
std::vector<std::filesystem::path> cgroup_levels(
    const CgroupTree& tree,
    std::string_view cgroup,
    const std::filesystem::path& mount) {
  std::vector<std::filesystem::path> levels;
  std::filesystem::path folder(parse_cgroup_path(cgroup, tree.controller));
  while (true) {
    levels.push_back(mount / tree.folder / folder.relative_path());
    if (!folder.has_relative_path()) {
      return levels;
    }
    folder = folder.parent_path();
  }
}

}  // namespace

std::optional<std::string> read_text_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  std::error_code ignored;
  // A folder opens too, and an empty file leaves nothing to insert.
  if (!file || std::filesystem::is_directory(path, ignored)) {
    return std::nullopt;
  }
  text << file.rdbuf();
  return text.str();
}

std::string parse_cpu_model(std::string_view cpuinfo) {
  for (std::string_view line : split(cpuinfo, "\n")) {
    const auto colon = line.find(':');
    if (!line.starts_with("model name") || colon == std::string_view::npos) {
      continue;
    }
    std::string model;
    for (std::string_view word : split(line.substr(colon + 1), kBlanks)) {
      model += model.empty() ? "" : " ";
      model += word;
    }
    return model;
  }
  return {};
}

std::uint64_t parse_kib(std::string_view status, std::string_view name) {
  for (std::string_view line : split(status, "\n")) {
    const auto words = split(line, kBlanks);
    if (words.size() == 3 && words[0].ends_with(':') &&
        words[0].substr(0, words[0].size() - 1) == name && words[2] == "kB") {
      return parse_number<std::uint64_t>(words[1]).value_or(0);
    }
  }
  return 0;
}

std::uint64_t parse_memory_total(std::string_view meminfo) {
  return parse_kib(meminfo, "MemTotal") * 1024;
}

std::vector<int> parse_cpu_list(std::string_view list) {
  constexpr std::uint64_t kMostCpus = 1 << 20;
  std::vector<int> cpus;
  for (std::string_view range : split(first_word(list), ",")) {
    const auto dash = std::min(range.find('-'), range.size());
    const auto first = parse_number<std::uint64_t>(range.substr(0, dash));
    const auto last = dash == range.size()
                          ? first
                          : parse_number<std::uint64_t>(range.substr(dash + 1));
    if (!first || !last || *last < *first || *last >= kMostCpus) {
      return {};
    }
    for (std::uint64_t cpu = *first; cpu <= *last; ++cpu) {
      cpus.push_back(static_cast<int>(cpu));
    }
  }
  return cpus;
}

std::optional<ProcessStat> parse_process_stat(std::string_view stat) {
  const auto name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) {
    return std::nullopt;
  }
  // What follows the name begins with field 3, the state.
  const auto fields = split(stat.substr(name_end + 1), kBlanks);
  if (fields.size() < 20 || fields[0].size() != 1) {
    return std::nullopt;
  }
  const auto parent = parse_number<std::uint64_t>(fields[1]);
  const auto session = parse_number<std::uint64_t>(fields[3]);
  const auto start_time = parse_number<std::uint64_t>(fields[19]);
  if (!parent || !session || !start_time) {
    return std::nullopt;
  }
  return ProcessStat{
      .state = fields[0][0],
      .parent = static_cast<int>(*parent),
      .session = static_cast<int>(*session),
      .start_time = *start_time};
}

std::optional<double> parse_cpu_max(std::string_view cpu_max) {
  const auto words = split(cpu_max, kBlanks);
  return words.size() == 2 ? quota_of(words[0], words[1]) : std::nullopt;
}

std::optional<std::uint64_t> parse_memory_max(std::string_view memory_max) {
  const auto words = split(memory_max, kBlanks);
  return words.size() == 1 ? parse_number<std::uint64_t>(words[0]) : std::nullopt;
}

std::string parse_cgroup_path(std::string_view cgroup, std::string_view controller) {
  for (std::string_view line : split(cgroup, "\n")) {
    // "4:cpu,cpuacct:/path", or "0::/path" for version 2; a path may hold colons.
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) {
      continue;
    }
    const auto names = split(line.substr(first + 1, second - first - 1), ",");
    const bool found =
        controller.empty()
            ? names.empty()
            : std::find(names.begin(), names.end(), controller) != names.end();
    if (!found) {
      continue;
    }
    const std::string_view path = line.substr(second + 1);
    // "/../x" is what a process outside of this cgroup namespace looks like.
    const bool good =
        path.starts_with('/') && path.find("/..") == std::string_view::npos;
    return good ? std::string(path) : "/";
  }
  return "/";
}

std::optional<double> find_cpu_quota(
    std::string_view cgroup, const std::filesystem::path& mount) {
  // The usual places: version 2 alone, beside version 1, and version 1 by either name.
  constexpr CgroupTree kTrees[] = {
      {"", ""}, {"unified", ""}, {"cpu", "cpu"}, {"cpu,cpuacct", "cpu"}};
  std::optional<double> least;
  for (const CgroupTree& tree : kTrees) {
    for (const auto& folder : cgroup_levels(tree, cgroup, mount)) {
      keep_least(least, quota_in(folder));
    }
  }
  return least;
}

std::optional<std::uint64_t> find_memory_limit(
    std::string_view cgroup, const std::filesystem::path& mount) {
  constexpr CgroupTree kTrees[] = {{"", ""}, {"unified", ""}, {"memory", "memory"}};
  std::optional<std::uint64_t> least;
  for (const CgroupTree& tree : kTrees) {
    for (const auto& folder : cgroup_levels(tree, cgroup, mount)) {
      for (const char* file : {"memory.max", "memory.limit_in_bytes"}) {
        keep_least(least, parse_memory_max(read_text_file(folder / file).value_or("")));
      }
    }
  }
  return least;
}

}  // namespace trireme
