// Which schedule a job runs: the one it names, or the one that measured costs ask for.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "trireme/comm/mesh.h"
#include "trireme/data/token_loader.h"
#include "trireme/model/model_plan.h"
#include "trireme/sched/cost_file.h"
#include "trireme/train/config.h"
#include "trireme/train/layout.h"

namespace trireme::train {

/// Whether the schedule is chosen from measured costs.
bool is_measured(const Config& config);

/// The layout that the config names; with auto, 1F1B, which is where measuring begins.
Layout first_layout(
    const Config& config,
    const Degrees& degrees,
    const BatchShape& batch,
    const std::vector<sched::LayerCosts>& layers);

/// A layout, and why it.
struct ScheduleChoice {
  Layout layout;
  /// The costs of the layers: in seconds if they were measured, else only counted.
  std::vector<sched::LayerCosts> layers;
  bool measured = false;
  /// How large messages are and what links take for them, if it was measured.
  double message_bytes = 0;
  std::vector<sched::Link> links{};
  /// For people: "ZBVZeroBubble, chosen of 21 from measured costs: 41 ms a step, …", or
  /// the schedule's name.
  std::string why;
};

/// Measures three steps, plans, tries the plan for three steps and keeps what was
/// faster. Trains nothing. Collective over the mesh; the same on all ranks.
ScheduleChoice choose_schedule(
    const comm::Mesh& mesh,
    const model::ModelPlan& plan,
    const Config& config,
    const Layout& first,
    const data::TokenBatch& batch);

/// Spreads what stages have cost over their layers, in proportion to `guess`.
std::vector<sched::LayerCosts> spread_costs(
    const Layout& layout,
    const std::vector<sched::LayerCosts>& guess,
    const std::vector<sched::StageCosts>& measured);

}  // namespace trireme::train
