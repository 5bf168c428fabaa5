// Which schedule, how many stages a rank and how many microbatches suit a model best.
#pragma once
#include <limits>
#include <string>
#include <vector>

#include "trireme/sched/cost_file.h"
#include "trireme/sched/partition.h"

namespace trireme::sched {

struct PlanRequest {
  /// Layers are cut into stages; without layers the stages are taken for layers, and a
  /// single stage for the share of each rank.
  CostFile costs;
  int ranks = 1;
  /// Empty: one, two, four and eight a rank.
  std::vector<int> microbatches;
  /// Bytes a rank.
  double memory_limit = std::numeric_limits<double>::infinity();
  /// Stages a rank are tried up to this.
  int most_stages_per_rank = 4;
};

/// One way to do it.
struct PlanEntry {
  std::string schedule;
  int stages_per_rank = 1;
  StageMap map = StageMap::Loop;
  int microbatches = 1;
  double makespan = 0;
  double wall_bubble = 0;
  /// Of the rank that takes most.
  double peak_bytes = 0;
  bool fits = true;
  /// The layers of each stage; empty where there are none.
  std::vector<LayerRange> layers;

  /// What ways are ranked by: microbatches are equally much work.
  double time_per_microbatch() const { return makespan / microbatches; }
  /// The part of the time that is lost, 0 to 1.
  double bubble_share() const { return makespan > 0 ? wall_bubble / makespan : 0; }
};

/// What there is to choose from.
struct Plan {
  /// Those that fit into memory first, the fastest first.
  std::vector<PlanEntry> entries;
  /// What was not tried because it would take long: a sentence, or nothing.
  std::string left_out;
};

/// The costs of a pipeline's stages: the file's; or its layers', cut into stages, where
/// it has layers alone.
Costs stage_costs(const CostFile& file, const std::vector<int>& rank_of_stage);

/// All ways. InvalidArgument if the costs are not legal or cannot be cut into stages
/// for so many ranks. Left out are pipelines that are too large to be simulated in a
/// few seconds each, and Auto for those with more than kMostForAuto microbatches of
/// stages.
Plan plan(const PlanRequest& request);

/// Stages x microbatches up to which Auto takes about a second.
inline constexpr int64_t kMostForAuto = 1 << 13;

/// Why the first one: a sentence. Of an empty list, or one in which nothing fits, too.
std::string explain(const std::vector<PlanEntry>& entries, double memory_limit);

}  // namespace trireme::sched
