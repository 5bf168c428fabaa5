// What the ranks saw of a step, put together.
#pragma once
#include <cstdint>

#include "trireme/comm/group.h"
#include "trireme/train/engine.h"
#include "trireme/train/layout.h"

namespace trireme::train {

/// What one rank has to say.
struct RankStep {
  StepOutcome outcome;
  int64_t peak_bytes = 0;
  /// Whether its loss counts.
  bool has_loss = false;
  bool stop = false;
};

/// What all say together.
struct StepTotals {
  double loss = 0;
  /// The part of all ranks' time that was no computing, 0 to 1.
  double bubble = 0;
  int64_t peak_bytes = 0;
  /// Whether the loss and the gradients' norm are numbers on all ranks.
  bool finite = true;
  /// Whether any rank wants to stop.
  bool stop = false;
};

/// One small call for all of it; the same on all ranks. Collective.
StepTotals total(
    const comm::Group& world, const Degrees& degrees, const RankStep& mine);

/// The mean over the pipelines of what their last stages have. Collective.
double mean_loss(
    const comm::Group& world, const Degrees& degrees, double mine, bool has_loss);

}  // namespace trireme::train
