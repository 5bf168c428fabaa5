#include "trireme/pipe/profile.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/autograd/gradient_sync.h"
#include "trireme/autograd/split_function.h"
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

/// Reduces nothing, but keeps gradients as data parallelism does: in a buffer of its
/// own, which every step writes to.
struct Buckets final : autograd::GradientSync {
  explicit Buckets(at::Tensor w) : weight(std::move(w)) {}
  void finish() override {
    flat.copy_(weight.grad().detach().flatten());
    weight.mutable_grad() = flat.view(weight.sizes());
  }
  void last_backward(int) override {}
  void reduce(int) override {}
  void abandon() noexcept override {}
  void leave_to_finish(const std::vector<at::Tensor>&) override {}
  void unshard(int) override {}
  void reshard(int) override {}
  at::Tensor weight;
  at::Tensor flat = at::zeros({weight.numel()});
};

TEST(ProfileRanks, GradientsInBucketsAreAsBefore) {
  testing::run_world(testing::Backend::Local, 1, [](const comm::Group& world) {
    const at::Tensor weight = at::ones({2, 2}).set_requires_grad(true);
    const auto sync = std::make_shared<Buckets>(weight);
    Pipeline pipeline(
        {{0,
          make_stage(
              [weight](const Tensors& in) {
                return Tensors{at::matmul(in[0], weight)};
              },
              {{"w", weight}})}},
        world,
        [](const Tensors& out, const Tensors&) { return at::mean(out[0]); },
        {.schedule = "GPipe", .microbatches = 2, .sync = sync});
    const Batch first{.inputs = {at::ones({4, 2})}, .targets = {at::ones({4})}};
    const Batch other{.inputs = {at::full({4, 2}, 7.0)}, .targets = {at::ones({4})}};
    pipeline.step(first);
    const at::Tensor handle = weight.grad();
    const at::Tensor before = handle.clone();
    profile(pipeline, other, {.steps = 1});
    EXPECT_TRUE(weight.grad().is_same(handle));
    EXPECT_TRUE(at::equal(weight.grad(), before));
    EXPECT_TRUE(at::equal(sync->flat, before.flatten()));
  });
}

// A stage whose backward stays whole has it all in I.
TEST(ProfileRanks, AStageThatCannotBeSplitIsMeasuredWhole) {
  testing::run_world(testing::Backend::Local, 1, [](const comm::Group& world) {
    const auto stage = [](const at::Tensor& weight, bool whole) {
      return make_stage(
          [weight, whole](const Tensors& in) {
            const at::Tensor y = at::matmul(in[0], weight);
            if (whole && y.requires_grad())
              autograd::run_whole(y);
            return Tensors{y};
          },
          {{"w", weight}});
    };
    const auto weight = [] { return at::ones({2, 2}).set_requires_grad(true); };
    Pipeline pipeline(
        {{0, stage(weight(), false)},
         {1, stage(weight(), true)},
         {2, stage(weight(), false)}},
        world,
        [](const Tensors& out, const Tensors&) { return at::mean(out[0]); },
        {.schedule = "Auto", .microbatches = 2});
    const Batch batch{.inputs = {at::ones({4, 2})}, .targets = {at::ones({4})}};
    const sched::CostFile file = profile(pipeline, batch);
    for (const sched::StageCosts& costs : file.costs.stages)
      EXPECT_GT(costs.input_grad, 0);
    const StepReport report = pipeline.report();
    ASSERT_EQ(report.splits.size(), 3U);
    EXPECT_EQ(report.splits[0].total(), 0);  // nothing there leads to an input
    EXPECT_EQ(report.splits[1].split, 0);
    EXPECT_EQ(
        report.splits[1].whole, (std::map<std::string, int64_t>{{"MmBackward0", 2}}));
    EXPECT_EQ(report.splits[2].split, 2);
    EXPECT_NE(
        to_text(report).find("stage 1: 0 nodes split, 2 whole (MmBackward0), 0 twice"),
        std::string::npos);
  });
}

}  // namespace
}  // namespace trireme::pipe
