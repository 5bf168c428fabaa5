#include "trireme/cli/machine_facts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <pwd.h>
#include <sys/stat.h>

#include "trireme/core/error.h"
#include "trireme/core/proc_text.h"

namespace trireme::cli {
namespace {

namespace fs = std::filesystem;

// The paths in a folder, in order; none if it is not there.
std::vector<fs::path> list(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    paths.push_back(entry->path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string user_name(uid_t uid) {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 16384> buffer{};
  if (getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 &&
      found != nullptr)
    return found->pw_name;
  return text("user ", uid);
}

// nvidia0, but not nvidiactl, nvidia-uvm or nvidia-caps.
bool is_gpu(const std::string& name) {
  constexpr std::string_view prefix = "nvidia";
  return name.size() > prefix.size() && name.starts_with(prefix) &&
         std::all_of(name.begin() + prefix.size(), name.end(), [](unsigned char c) {
           return std::isdigit(c) != 0;
         });
}

std::string first_line(const std::string& all) {
  return all.substr(0, all.find('\n'));
}

// The value of "Model: \t NVIDIA H200" in the driver's description of a GPU.
std::string gpu_model(const std::string& information) {
  const std::string line = first_line(information);
  const std::string_view label = "Model:";
  const size_t begin = line.starts_with(label)
                           ? line.find_first_not_of(" \t", label.size())
                           : std::string::npos;
  return begin == std::string::npos ? "" : line.substr(begin);
}

}  // namespace

std::vector<LeftSegment> left_segments(const fs::path& folder) {
  std::vector<LeftSegment> found;
  for (const fs::path& path : list(folder)) {
    const std::string name = path.filename().string();
    struct stat status {};
    if (!name.starts_with("trireme-") || ::lstat(path.c_str(), &status) != 0)
      continue;
    found.push_back(
        {.name = name,
         .owner = user_name(status.st_uid),
         .bytes = static_cast<std::uint64_t>(status.st_blocks) * 512});
  }
  return found;
}

GpuFacts read_gpus(const fs::path& root) {
  GpuFacts facts;
  for (const fs::path& path : list(root / "dev"))
    if (is_gpu(path.filename().string()))
      facts.devices.push_back(text("/dev/", path.filename().string()));
  const fs::path driver = root / "proc/driver/nvidia";
  for (const fs::path& gpu : list(driver / "gpus"))
    if (const auto information = read_text_file(gpu / "information"))
      if (const std::string model = gpu_model(*information); !model.empty())
        facts.models.push_back(model);
  if (const auto version = read_text_file(driver / "version"))
    facts.driver = first_line(*version);
  return facts;
}

}  // namespace trireme::cli
