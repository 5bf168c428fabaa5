// The folder of a run, and what lies where in it.
#pragma once
#include <filesystem>
#include <string>

#include "trireme/train/config.h"

namespace trireme::train {

/// RUN/: config.toml, metrics.jsonl, schedule.svg, schedule_planned.svg, trace.json,
/// checkpoint/step-N/.
struct RunFolder {
  std::filesystem::path path;
  std::filesystem::path checkpoints;

  std::filesystem::path config() const { return path / "config.toml"; }
  std::filesystem::path metrics() const { return path / "metrics.jsonl"; }
  /// Where metrics.jsonl is kept when the run goes on from an earlier step: the first
  /// free metrics.aside-K.jsonl.
  std::filesystem::path metrics_aside() const;
  std::filesystem::path picture() const { return path / "schedule.svg"; }
  std::filesystem::path planned_picture() const {
    return path / "schedule_planned.svg";
  }
  std::filesystem::path trace() const { return path / "trace.json"; }
  std::filesystem::path trace(int64_t step) const;
};

/// The folder that the config names; if it names none, with checkpoint.resume auto the
/// newest runs/N that has a checkpoint, which must be of the same job: InvalidArgument
/// names the key of model or data that differs. Empty if there is none yet.
std::string find_run_folder(const Config& config);

/// The same; if there is none yet the next free runs/N, which is made here, so that two
/// jobs at once get two. Call it once a job.
std::string choose_run_folder(const Config& config);

/// Makes what is missing. InvalidArgument if that cannot be.
RunFolder open_run_folder(const Config& config);

}  // namespace trireme::train
