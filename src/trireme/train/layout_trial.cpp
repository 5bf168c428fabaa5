#include "trireme/train/layout_trial.h"

#include <algorithm>
#include <chrono>

#include <ATen/ATen.h>

#include "trireme/comm/collectives.h"
#include "trireme/comm/mesh.h"
#include "trireme/train/engine.h"
#include "trireme/train/estimate.h"
#include "trireme/train/schedule_choice.h"

namespace trireme::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUp = 2;
constexpr int kLeastTimed = 2;
constexpr int kMostTimed = 12;
constexpr double kEnoughSeconds = 0.4;

/// This pipeline's share of a batch. Which tokens these are changes no time.
data::TokenBatch make_up(const Config& config, const model::ModelPlan& plan, int dp) {
  const int64_t samples = config.training.global_batch_size / dp;
  const int64_t length = config.training.seq_len;
  const at::Tensor tokens =
      at::arange(samples * length, at::kLong).remainder(plan.vocab_size);
  return {
      .inputs = tokens.view({samples, length}),
      .targets = tokens.flip(0).view({samples, length})};
}

double slowest(const comm::Group& world, double seconds) {
  at::Tensor most = at::full({1}, seconds, at::kDouble);
  comm::all_reduce(world, most, {.op = comm::ReduceOp::Max});
  return most.item<double>();
}

}  // namespace

double time_layout(
    const comm::Group& world,
    const Config& config,
    const model::ModelPlan& plan,
    const Degrees& degrees) {
  const comm::Mesh mesh(world, {{"dp", degrees.dp}, {"pp", degrees.pp}});
  const BatchShape shape = choose_batch(config, degrees);
  Engine engine(
      mesh,
      plan,
      first_layout(config, degrees, shape, estimate_layers(plan, config, shape)),
      config,
      FirstWeights::Zeros);
  data::TokenBatch batch = make_up(config, plan, degrees.dp);
  batch.first_sample = mesh.coordinate("dp") * batch.inputs.size(0);
  double best = 0;
  double sum = 0;
  for (int i = 0; i < kWarmUp + kMostTimed; ++i) {
    comm::barrier(world);
    const auto start = Clock::now();
    engine.step(batch, /*rate=*/0);
    // All ranks have the same number, and so stop after the same step.
    const double took =
        slowest(world, std::chrono::duration<double>(Clock::now() - start).count());
    sum += took;
    if (i < kWarmUp)
      continue;
    best = i == kWarmUp ? took : std::min(best, took);
    if (i + 1 >= kWarmUp + kLeastTimed && sum >= kEnoughSeconds)
      break;
  }
  return best;
}

}  // namespace trireme::train
