// The rest of it is in trainer_test.cpp, with whole jobs.
#include "trireme/train/engine.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tiny_job.h"
#include "trireme/comm/mesh.h"
#include "trireme/train/estimate.h"
#include "trireme/train/model_source.h"
#include "trireme/train/schedule_choice.h"

namespace trireme::train {
namespace {

struct Seen {
  double loss = 0;
  double grad_norm = 0;
};

/// Two steps on one batch; what the ranks of the last stages saw of the second.
Seen two_steps(const Config& config, int pp, int dp) {
  Seen seen;
  comm::run_local(pp * dp, [&](const comm::Group& world) {
    const comm::Mesh mesh(world, {{"dp", dp}, {"pp", pp}});
    const Degrees degrees{.pp = pp, .dp = dp};
    const auto plan = describe_model(config, 256).plan;
    const BatchShape batch = choose_batch(config, degrees);
    const auto costs = estimate_layers(plan, config, batch);
    Engine engine(mesh, plan, first_layout(config, degrees, batch, costs), config);
    const int64_t share = 8 / dp;
    const at::Tensor all = at::arange(8 * 17, at::kLong).remainder(256).view({8, 17});
    const at::Tensor mine = all.narrow(0, mesh.coordinate("dp") * share, share);
    data::TokenBatch tokens{
        .inputs = mine.narrow(1, 0, 16),
        .targets = mine.narrow(1, 1, 16),
        .first_sample = mesh.coordinate("dp") * share};
    engine.step(tokens, 0.01);
    tokens.step = 1;
    const StepOutcome outcome = engine.step(tokens, 0.01);
    EXPECT_GT(outcome.busy_s, 0);
    EXPECT_GT(outcome.end_ns, outcome.start_ns);
    if (engine.has_last() && mesh.coordinate("dp") == 0)
      seen = {outcome.loss, outcome.grad_norm};
  });
  return seen;
}

TEST(EngineRanks, TheNormCountsTiedParametersOnce) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  const Seen one = two_steps(config, 1, 1);
  for (const auto& [pp, dp] : {std::pair{2, 1}, std::pair{2, 2}, std::pair{1, 2}})
    EXPECT_NEAR(
        two_steps(config, pp, dp).grad_norm, one.grad_norm, 1e-4 * one.grad_norm)
        << pp << " x " << dp;
}

TEST(EngineRanks, WithoutALimitTheNormIsTakenAndNothingCut) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.training.max_norm = 0;
  const Seen free = two_steps(config, 1, 1);
  EXPECT_GT(free.grad_norm, 0);
  config.training.max_norm = 1e9;
  EXPECT_EQ(two_steps(config, 1, 1).grad_norm, free.grad_norm);
}

TEST(Engine, TheLossIsAMeanInFloat) {
  const at::Tensor logits = at::zeros({2, 3, 7}, at::kBFloat16);
  const at::Tensor loss = token_loss({logits}, {at::zeros({2, 3}, at::kLong)});
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  EXPECT_NEAR(loss.item<double>(), std::log(7.0), 1e-6);
}

}  // namespace
}  // namespace trireme::train
