#include "trireme/train/run_folder.h"

#include <cerrno>
#include <sys/stat.h>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

// More runs than anybody keeps in one folder.
constexpr int kMostRuns = 100'000;

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    throw InvalidArgument(text(
        "[train] wanted to make the folder ",
        in_quotes(path.string()),
        ", got ",
        error.message(),
        "; set job.dump_folder to one that can be written"));
}

}  // namespace

fs::path RunFolder::trace(int64_t step) const {
  return path / text("trace-", step, ".json");
}

std::string choose_run_folder(const Config& config) {
  if (!config.job.dump_folder.empty())
    return config.job.dump_folder;
  make_folder("runs");
  for (int number = 1; number < kMostRuns; ++number) {
    const std::string path = text("runs/", number);
    if (::mkdir(path.c_str(), 0755) == 0)
      return path;
    if (errno != EEXIST)
      throw InvalidArgument(text(
          "[train] wanted to make the folder ",
          path,
          ", got ",
          errno_text(errno),
          "; set job.dump_folder to one that can be written"));
  }
  throw InvalidArgument(text(
      "[train] wanted a free name in runs/, got ", kMostRuns, " runs; remove some"));
}

RunFolder open_run_folder(const Config& config) {
  RunFolder folder{
      .path = config.job.dump_folder,
      .checkpoints = fs::path(config.job.dump_folder) / config.checkpoint.folder};
  make_folder(folder.path);
  return folder;
}

}  // namespace trireme::train
