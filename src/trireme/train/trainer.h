// The training loop of one rank. The module's main type.
#pragma once
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "trireme/comm/group.h"
#include "trireme/train/config.h"
#include "trireme/train/layout.h"
#include "trireme/train/metrics.h"

namespace trireme::train {

/// How a rank is to behave beside what the config says.
struct TrainerOptions {
  /// Where progress goes, on rank 0, and what came of it in the end; null: nowhere.
  std::ostream* progress = nullptr;
  std::ostream* report = nullptr;
  /// Whether the progress goes to a terminal, and its columns.
  bool terminal = false;
  int width = 80;
  /// Who does what, where the config leaves it open; nothing: the best by estimate.
  std::optional<Degrees> degrees{};
  /// How the program was called, in the commands that the report ends with.
  std::string program = "trireme";
  /// Stops after a step, with a checkpoint, when this says so on any rank.
  std::function<bool()> should_stop{};
  /// Called on all ranks after every step.
  std::function<void(const StepMetrics&)> on_step{};
};

/// What came of a job.
struct TrainResult {
  /// Steps done in all, those before a resume included.
  int64_t step = 0;
  double last_loss = 0;
  /// Before the first step of this run, and at its end, if there is held-out data.
  std::optional<double> held_out_before{};
  std::optional<double> held_out_after{};
  /// Stopped before its end, but ready to go on.
  bool stopped = false;
  /// Of the model, at the end.
  std::string sample;
  /// The last checkpoint; empty if none was written.
  std::string checkpoint;
};

/// Trains as one rank of a world. All ranks have the same config. Throws what goes
/// wrong, on all ranks.
///
///     comm::run_local(2, [&](const comm::Group& world) { train(world, config); });
TrainResult train(
    const comm::Group& world, const Config& config, const TrainerOptions& options = {});

}  // namespace trireme::train
