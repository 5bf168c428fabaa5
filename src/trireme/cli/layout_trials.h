// Which layout `trireme train` takes: the best by estimate are tried on ranks of their
// own, before those of the job start.
#pragma once
#include <vector>

#include "trireme/comm/group.h"
#include "trireme/model/model_plan.h"
#include "trireme/train/config.h"
#include "trireme/train/layout_choice.h"

namespace trireme::cli {

/// What a job is made from, all of it checked.
struct TrainPlan {
  train::Config config;
  model::ModelPlan model;
  /// The best by estimate first.
  std::vector<train::LayoutCandidate> layouts;
};

/// What came of the trials.
struct LayoutTrials {
  train::LayoutChoice choice;
  /// The exit code of a job that was told to stop meanwhile; 0: it was not.
  int stopped = 0;
};

/// Tries layouts on ranks that are forks of this process, and gone afterwards.
LayoutTrials try_layouts(const TrainPlan& plan);

/// The same in a world that is there already, and stays. Collective; the same on all
/// ranks.
train::LayoutChoice try_layouts(const TrainPlan& plan, const comm::Group& world);

}  // namespace trireme::cli
