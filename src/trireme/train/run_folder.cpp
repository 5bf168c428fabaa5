#include "trireme/train/run_folder.h"

#include <cerrno>
#include <optional>
#include <sys/stat.h>

#include "trireme/ckpt/checkpoint_folder.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/parse_number.h"
#include "trireme/train/config_file.h"
#include "trireme/train/config_keys.h"

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
        "[train] expected to make the folder ",
        in_quotes(path.string()),
        ", got ",
        error.message(),
        "; set job.dump_folder to one that can be written"));
}

// The newest of runs/N that has a checkpoint to go on from.
std::string newest_run(const Config& config) {
  std::optional<int64_t> newest;
  std::error_code error;
  for (fs::directory_iterator it("runs", error), end; !error && it != end;
       it.increment(error)) {
    const auto number = parse_number<int64_t>(it->path().filename().string());
    if (number && number > newest &&
        !ckpt::checkpoint_steps(it->path() / config.checkpoint.folder).empty())
      newest = number;
  }
  return newest ? text("runs/", *newest) : "";
}

// Two jobs may share a folder of runs, and the newest need not be of this one.
void check_same_job(const Config& config, const std::string& run) {
  Config other;
  read_config_file(other, (fs::path(run) / "config.toml").string());
  for (const Key& key : config_keys()) {
    const std::string mine = toml_value(config, key), theirs = toml_value(other, key);
    if ((key.section == "model" || key.section == "data") && mine != theirs)
      throw InvalidArgument(text(
          "[train] expected checkpoint.resume auto to go on with ",
          run,
          ", the newest run that has a checkpoint, got another job: there ",
          full_name(key),
          " is ",
          theirs,
          ", here ",
          mine,
          "; name the run to go on with as --job.dump_folder, or begin anew with "
          "--checkpoint.resume never"));
  }
}

}  // namespace

fs::path RunFolder::trace(int64_t step) const {
  return path / text("trace-", step, ".json");
}

fs::path RunFolder::metrics_aside() const {
  fs::path aside;
  for (int number = 1; number < kMostRuns; ++number) {
    aside = path / text("metrics.aside-", number, ".jsonl");
    if (std::error_code ignored; !fs::exists(aside, ignored))
      break;
  }
  return aside;
}

std::string find_run_folder(const Config& config) {
  if (!config.job.dump_folder.empty() || config.checkpoint.resume != "auto")
    return config.job.dump_folder;
  const std::string run = newest_run(config);
  if (!run.empty())
    check_same_job(config, run);
  return run;
}

std::string choose_run_folder(const Config& config) {
  if (const std::string run = find_run_folder(config); !run.empty())
    return run;
  make_folder("runs");
  for (int number = 1; number < kMostRuns; ++number) {
    const std::string path = text("runs/", number);
    if (::mkdir(path.c_str(), 0755) == 0)
      return path;
    if (errno != EEXIST)
      throw InvalidArgument(text(
          "[train] expected to make the folder ",
          path,
          ", got ",
          errno_text(errno),
          "; set job.dump_folder to one that can be written"));
  }
  throw InvalidArgument(text(
      "[train] expected a free name in runs/, got ", kMostRuns, " runs; remove some"));
}

RunFolder open_run_folder(const Config& config) {
  RunFolder folder{
      .path = config.job.dump_folder,
      .checkpoints = fs::path(config.job.dump_folder) / config.checkpoint.folder};
  make_folder(folder.path);
  return folder;
}

}  // namespace trireme::train
