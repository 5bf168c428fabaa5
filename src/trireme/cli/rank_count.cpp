#include "trireme/cli/rank_count.h"

#include <algorithm>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/machine.h"
#include "trireme/core/parse_number.h"

namespace trireme::cli {
namespace {

// As CUDA reads it: the list ends at the first entry that is no device. Slurm writes
// NoDevFiles where a job has none.
bool names_device(std::string_view entry) {
  return (!entry.empty() && entry[0] >= '0' && entry[0] <= '9') ||
         entry.starts_with("GPU-") || entry.starts_with("MIG-");
}

int count_visible(std::string_view list) {
  int count = 0;
  while (names_device(list)) {
    ++count;
    list.remove_prefix(std::min(list.find(','), list.size() - 1) + 1);
  }
  return count;
}

// nvidia0, nvidia1, …; nvidiactl and nvidia-uvm are no GPUs.
int count_devices(const std::filesystem::path& folder) {
  int count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end;
       !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    constexpr std::string_view kStem = "nvidia";
    if (name.starts_with(kStem) && name.size() > kStem.size() &&
        name.find_first_not_of("0123456789", kStem.size()) == std::string::npos)
      ++count;
  }
  return count;
}

}  // namespace

RankSources rank_sources(const Environment& env, const std::filesystem::path& devices) {
  const auto visible = env.find("CUDA_VISIBLE_DEVICES");
  return {
      .cores = available_cores(),
      .gpus = visible ? count_visible(*visible) : count_devices(devices)};
}

int parse_rank_count(const std::string& value, const RankSources& sources) {
  if (value == "cpu" || (value == "auto" && sources.gpus == 0))
    return sources.cores;
  if (value == "gpu" || value == "auto") {
    if (sources.gpus == 0)
      throw InvalidArgument(
          "[cli] expected as many ranks as GPUs, got a machine without one that can be "
          "used (no /dev/nvidia0, or CUDA_VISIBLE_DEVICES hides it); give a number, or "
          "\"cpu\"");
    return sources.gpus;
  }
  const auto count = parse_number<int>(value);
  if (!count)
    throw InvalidArgument(text(
        "[cli] expected the number of ranks (-n) to be a whole number, \"auto\", "
        "\"cpu\" "
        "or \"gpu\", got ",
        in_quotes(value),
        "; for instance -n 4"));
  return *count;
}

}  // namespace trireme::cli
