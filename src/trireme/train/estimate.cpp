#include "trireme/train/estimate.h"

#include <algorithm>

#include "trireme/sched/index.h"
#include "trireme/sched/simulate.h"
#include "trireme/train/model_source.h"

namespace trireme::train {
namespace {

// What a core computes in a second, in the unit of estimate_layers().
constexpr double kCoreSpeed = 60;
// What every further thread of a rank takes from the others: to start and to wait.
constexpr double kThreadLoss = 0.06;
// Starting the kernels of a layer: for its forward, and for each half of its backward.
constexpr double kLayerStart = 60e-6;
// Bytes a second that a core reads and writes, and all cores together.
constexpr double kCoreBandwidth = 8e9;
constexpr double kHostBandwidth = 60e9;
// More ranks than these are taken for those of several hosts.
constexpr int kHostRanks = 16;
// How often a step reads and writes each weight: to update it, and to reduce its
// gradient.
constexpr double kUpdatePasses = 7;
constexpr double kReducePasses = 3;

bool is_low(const Config& config) {
  return build_options(config).dtype != at::kFloat;
}

sched::Simulation run(
    const Layout& layout, const std::vector<sched::LayerCosts>& layers) {
  sched::Costs costs;
  costs.stages = stage_costs(layout, layers);
  return sched::simulate(layout.schedule, {.costs = costs});
}

}  // namespace

std::vector<sched::LayerCosts> estimate_layers(
    const model::ModelPlan& plan, const Config& config, const BatchShape& batch) {
  const int64_t length = config.training.seq_len;
  const auto tokens = static_cast<double>(batch.microbatch_size * length);
  const bool again = config.activation_checkpoint.mode == "full";
  const double element = is_low(config) ? 2 : 4;
  std::vector<sched::LayerCosts> all;
  for (const model::LayerPlan& layer : plan.layers) {
    // A lookup costs little, but not nothing: a layer without a time could be cut off
    // into a stage of its own.
    const double forward = tokens * (layer.forward_flops_per_token(length) + 1) * 1e-9;
    const double extra = again && layer.work.is_block ? forward : 0;
    all.push_back(
        {.name = layer.name,
         .costs = {
             .forward = forward,
             .input_grad = forward + extra,
             .weight_grad = forward,
             .backward = 2 * forward + extra,
             .activation_bytes =
                 tokens * layer.kept_bytes_per_token(length, build_options(config)),
             .weight_bytes = element * static_cast<double>(layer.count_parameters())}});
  }
  return all;
}

std::vector<MemoryEstimate> estimate_memory(
    const Layout& layout,
    const std::vector<sched::LayerCosts>& layers,
    const Config& config) {
  const bool low = is_low(config);
  const bool adam = config.optimizer.name == "AdamW";
  const bool momentum = config.optimizer.momentum != 0;
  const sched::Simulation simulated = run(layout, layers);
  const auto stages = stage_costs(layout, layers);
  std::vector<MemoryEstimate> all(sched::index(layout.degrees.pp));
  for (size_t stage = 0; stage < stages.size(); ++stage)
    all[sched::index(layout.schedule.rank_of_stage[stage])].weights +=
        stages[stage].weight_bytes;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    MemoryEstimate& one = all[rank];
    const double whole = low ? 2 * one.weights : one.weights;  // in float32
    one.activations = simulated.peak_bytes[rank] - one.weights;
    one.gradients = low ? one.weights + whole : one.weights;
    one.optimizer = whole * ((adam ? 2.0 : momentum ? 1.0 : 0.0) + (low ? 1.0 : 0.0));
  }
  return all;
}

double estimate_step(
    const Layout& layout, const std::vector<sched::LayerCosts>& layers, int threads) {
  const double speed = kCoreSpeed * threads / (1 + kThreadLoss * (threads - 1));
  std::vector<sched::LayerCosts> timed = layers;
  for (sched::LayerCosts& layer : timed) {
    layer.costs.forward = layer.costs.forward / speed + kLayerStart;
    layer.costs.input_grad = layer.costs.input_grad / speed + kLayerStart;
    layer.costs.weight_grad = layer.costs.weight_grad / speed + kLayerStart;
    layer.costs.backward = layer.costs.backward / speed + 2 * kLayerStart;
  }
  std::vector<double> weights(sched::index(layout.degrees.pp));
  const auto stages = stage_costs(layout, layers);
  for (size_t stage = 0; stage < stages.size(); ++stage)
    weights[sched::index(layout.schedule.rank_of_stage[stage])] +=
        stages[stage].weight_bytes;
  const double passes = kUpdatePasses + (layout.degrees.dp > 1 ? kReducePasses : 0);
  const double bandwidth = std::min(
      threads * kCoreBandwidth,
      kHostBandwidth / std::min(kHostRanks, layout.degrees.ranks()));
  return layout.batch.passes * run(layout, timed).makespan +
         passes * *std::max_element(weights.begin(), weights.end()) / bandwidth;
}

double predict_bubble(
    const Layout& layout, const std::vector<sched::LayerCosts>& layers) {
  const sched::Simulation simulated = run(layout, layers);
  return simulated.makespan > 0 ? simulated.wall_bubble / simulated.makespan : 0;
}

}  // namespace trireme::train
