// Which rank does what: pipelines beside one another, stages of layers, microbatches.
// Pure: the same on every rank, and for worlds that are not there.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/sched/cost_file.h"
#include "trireme/sched/partition.h"
#include "trireme/sched/schedule.h"
#include "trireme/train/config.h"

namespace trireme::train {

/// How many ranks a pipeline has, and how many pipelines there are.
struct Degrees {
  int pp = 1;
  int dp = 1;
  int ranks() const { return pp * dp; }
  bool operator==(const Degrees&) const = default;
};

/// InvalidArgument unless the degrees fill a world of `ranks`, which is what the config
/// asks for if it does, and a model of so many layers is enough for them.
void check_degrees(
    const ParallelismConfig& config, const Degrees& degrees, int ranks, int layers);

/// How the samples of a step are cut.
struct BatchShape {
  /// Samples of one microbatch, microbatches of one pass through a pipeline, and passes
  /// of a step, whose gradients add up.
  int64_t microbatch_size = 1;
  int microbatches = 1;
  int passes = 1;
  /// Samples of one pass of one pipeline.
  int64_t local_batch() const { return microbatch_size * microbatches; }
};

/// For people: "8 microbatches of 2".
std::string to_text(const BatchShape& batch);

/// InvalidArgument unless the batch can be cut evenly.
BatchShape choose_batch(const Config& config, const Degrees& degrees);

/// Everything about who does what.
struct Layout {
  Degrees degrees;
  BatchShape batch;
  /// A compute-only schedule for one pipeline.
  sched::Schedule schedule;
  /// The layers of each stage.
  std::vector<sched::LayerRange> layers;

  int stages() const { return schedule.stages(); }
};

/// A schedule by name (not auto), with the layers cut so that the slowest rank is as
/// fast as can be. `stages_per_rank` 0: as the schedule wants. InvalidArgument if the
/// schedule does not go with that many layers, ranks or microbatches.
Layout make_layout(
    const Degrees& degrees,
    const BatchShape& batch,
    const std::vector<sched::LayerCosts>& layers,
    const std::string& schedule,
    int stages_per_rank = 0);

/// The same with a schedule that somebody has written.
Layout make_layout(
    const Degrees& degrees,
    const BatchShape& batch,
    const std::vector<sched::LayerCosts>& layers,
    const sched::Schedule& schedule);

/// The costs of the stages, which are those of their layers.
std::vector<sched::StageCosts> stage_costs(
    const Layout& layout, const std::vector<sched::LayerCosts>& layers);

/// Lines for people: the mesh, each rank's stages, and their layers.
std::string to_text(const Layout& layout, const std::vector<sched::LayerCosts>& layers);

}  // namespace trireme::train
