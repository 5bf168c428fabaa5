#include "trireme/pipe/profile.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/pipe/module_stage.h"
#include "trireme/pipe/program.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

TEST(Profile, ItsScheduleRunsForAnyMap) {
  for (const std::vector<int>& owners : std::vector<std::vector<int>>{
           {0}, {0, 1}, {0, 1, 1, 0}, {0, 1, 0, 1}, {0, 0, 1, 1, 0}})
    for (const bool split : {false, true})
      EXPECT_TRUE(make_program(profile_schedule(owners, 4, split)).trains);
}

TEST(ProfileRanks, MeasuresAndLeavesNoTrace) {
  for (const auto backend : {testing::Backend::Local, testing::Backend::Shm})
    testing::run_world(backend, 2, [](const comm::Group& world) {
      const at::Tensor weight = at::randn({32, 32}).set_requires_grad(true);
      const at::Tensor count = at::zeros({1});
      const StagePtr stage = make_stage(
          TensorsFunction([=](const Tensors& in) {
            count.add_(1);
            return Tensors{at::tanh(at::matmul(in[0], weight))};
          }),
          {{"w", weight}},
          {{"count", count}});
      Pipeline pipeline(
          {{world.rank(), stage}},
          world,
          [](const Tensors& out, const Tensors&) { return at::mean(out[0]); },
          {.microbatches = 4});
      Batch batch;
      (world.rank() == 0 ? batch.inputs : batch.targets) = Tensors{at::randn({8, 32})};
      pipeline.step(batch);
      const at::Tensor before = weight.grad().clone();
      const sched::CostFile file = profile(pipeline, batch, {.steps = 2});
      EXPECT_TRUE(at::equal(weight.grad(), before));
      EXPECT_EQ(count.item<double>(), 4);
      ASSERT_EQ(file.costs.stages.size(), 2U);
      for (const sched::StageCosts& costs : file.costs.stages) {
        EXPECT_GT(costs.forward, 0);
        EXPECT_GT(costs.backward, 0);
        EXPECT_GT(costs.weight_grad, 0);
        EXPECT_EQ(costs.weight_bytes, 32 * 32 * 4);
      }
      EXPECT_GT(file.costs.stages[1].input_grad, 0);
      // What it writes can be read again.
      EXPECT_EQ(
          sched::parse_costs(sched::to_json(file), "costs").costs.stages[1].backward,
          file.costs.stages[1].backward);
    });
}

TEST(ProfileRanks, AStageThatCannotBeSplitIsMeasuredWhole) {
  struct Opaque : StageModule {
    Tensors forward(const Tensors& in) override { return {at::mul(in[0], weight)}; }
    NamedTensors parameters() const override { return {{"w", weight}}; }
    std::optional<std::string> unsplittable() const override { return "so it is"; }
    at::Tensor weight = at::ones({1}).set_requires_grad(true);
  };
  testing::run_world(testing::Backend::Local, 1, [](const comm::Group& world) {
    Pipeline pipeline(
        {{0, std::make_shared<Opaque>()}},
        world,
        [](const Tensors& out, const Tensors&) { return at::mean(out[0]); },
        {.schedule = "GPipe", .microbatches = 2});
    const sched::CostFile file =
        profile(pipeline, {.inputs = {at::ones({4})}, .targets = {at::ones({4})}});
    EXPECT_EQ(file.costs.stages[0].input_grad, 0);
    EXPECT_EQ(file.costs.stages[0].weight_grad, file.costs.stages[0].backward);
  });
}

}  // namespace
}  // namespace trireme::pipe
