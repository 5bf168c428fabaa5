// What a model's layers cost, by counting: for layouts before anything was measured.
#pragma once
#include <vector>

#include "trireme/model/model_plan.h"
#include "trireme/sched/cost_file.h"
#include "trireme/train/config.h"
#include "trireme/train/layout.h"

namespace trireme::train {

/// A layer's time for one microbatch, at one operation a nanosecond (only how layers
/// compare matters), what forward keeps, and the bytes of weights.
std::vector<sched::LayerCosts> estimate_layers(
    const model::ModelPlan& plan, const Config& config, const BatchShape& batch);

/// The bytes that a rank needs, at most, by kind.
struct MemoryEstimate {
  double weights = 0;
  double gradients = 0;
  /// Both moments, and the masters of low precision.
  double optimizer = 0;
  double activations = 0;
  double total() const { return weights + gradients + optimizer + activations; }
};

/// Of each rank of a pipeline.
std::vector<MemoryEstimate> estimate_memory(
    const Layout& layout,
    const std::vector<sched::LayerCosts>& layers,
    const Config& config);

/// What a step takes with so many threads a rank, in seconds of a machine that is like
/// most, whose ranks share the bandwidth of its memory. Good for comparing layouts, and
/// no more.
double estimate_step(
    const Layout& layout, const std::vector<sched::LayerCosts>& layers, int threads);

/// The part of a step that the schedule wastes, with these costs: 0 to 1.
double predict_bubble(
    const Layout& layout, const std::vector<sched::LayerCosts>& layers);

}  // namespace trireme::train
