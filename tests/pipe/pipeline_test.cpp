#include "trireme/pipe/pipeline.h"

#include <array>
#include <map>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/pipe/forward_context.h"
#include "trireme/pipe/module_stage.h"
#include "trireme/pipe/split_model.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/lower.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using sched::ActionKind;
using testing::Backend;

/// A stage of one matrix.
StagePtr matrix_stage(const at::Tensor& w) {
  return make_stage(
      TensorsFunction(
          [w](const Tensors& in) { return Tensors{in[0].matmul(w).tanh()}; }),
      {{"w", w}});
}

struct Case {
  std::string schedule;
  int ranks;
  int stages_per_rank;
  int microbatches;
};

void equals_one_process(Backend backend, const Case& c) {
  const int stages = c.ranks * c.stages_per_rank;
  std::vector<at::Tensor> initial;
  for (int i = 0; i < stages; ++i)
    initial.push_back(at::randn({6, 6}));
  const at::Tensor x = at::randn({2 * c.microbatches, 6});
  const at::Tensor y = at::randn({2 * c.microbatches, 6});
  const auto loss = [](const Tensors& out, const Tensors& target) {
    return (out[0] - target[0]).pow(2).mean();
  };
  std::vector<at::Tensor> whole;
  for (const at::Tensor& w : initial)
    whole.push_back(w.clone().set_requires_grad(true));
  std::vector<at::Tensor> losses;
  for (int m = 0; m < c.microbatches; ++m) {
    at::Tensor h = x.chunk(c.microbatches)[m];
    for (const at::Tensor& w : whole)
      h = h.matmul(w).tanh();
    losses.push_back(loss({h}, {y.chunk(c.microbatches)[m]}));
    torch::autograd::backward({losses.back()}, {at::full({}, 1.0 / c.microbatches)});
  }
  testing::run_world(backend, c.ranks, [&](const comm::Group& world) {
    const auto owners =
        sched::map_stages(sched::find_schedule(c.schedule).map, c.ranks, stages);
    std::vector<Stage> mine;
    std::vector<at::Tensor> weights;
    for (const int s : sched::stages_of(owners, world.rank())) {
      weights.push_back(initial[s].clone().set_requires_grad(true));
      mine.push_back({s, matrix_stage(weights.back())});
    }
    Pipeline pipeline(
        mine, world, loss, {.schedule = c.schedule, .microbatches = c.microbatches});
    Batch batch;
    if (owners.front() == world.rank())
      batch.inputs = {x};
    if (owners.back() == world.rank())
      batch.targets = {y};
    const StepResult result = pipeline.step(batch);
    if (owners.back() == world.rank()) {
      for (int m = 0; m < c.microbatches; ++m)
        EXPECT_TRUE(at::equal(result.losses[m], losses[m])) << c.schedule << " " << m;
    }
    for (size_t i = 0; i < mine.size(); ++i)
      EXPECT_TRUE(at::allclose(weights[i].grad(), whole[mine[i].index].grad()))
          << c.schedule;
  });
}

TEST(PipelineRanks, EqualsOneProcess) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    for (const Case& c : std::vector<Case>{
             {"GPipe", 2, 1, 4},
             {"1F1B", 2, 1, 4},
             {"Interleaved1F1B", 2, 2, 4},
             {"LoopedBFS", 2, 2, 4},
             {"InterleavedZeroBubble", 2, 2, 4},
             {"ZBVZeroBubble", 2, 2, 4},
             {"DualPipeV", 2, 2, 4}})
      equals_one_process(backend, c);
}

// -- handlers

/// A pipeline of two ranks with a stage each, and the batch that all of them give.
struct TwoRanks {
  explicit TwoRanks(const comm::Group& world, PipelineOptions options = {})
      : weight((at::arange(16, at::kFloat).view({4, 4}) * 0.1 + world.rank())
                   .sin()
                   .set_requires_grad(true)),
        x(at::arange(32, at::kFloat).view({8, 4}).sin()) {
    options.microbatches = 4;
    pipeline = std::make_unique<Pipeline>(
        std::vector<Stage>{{world.rank(), matrix_stage(weight)}},
        world,
        [](const Tensors& out, const Tensors& target) {
          return (out[0] - target[0]).pow(2).mean();
        },
        std::move(options));
  }
  StepResult step() { return pipeline->step({x}, {x.flip(0)}); }

  at::Tensor weight;
  at::Tensor x;
  std::unique_ptr<Pipeline> pipeline;
};

TEST(PipelineRanks, ActionsOnShardsAreCalledWithoutASync) {
  testing::run_world(Backend::Local, 2, [](const comm::Group& world) {
    TwoRanks two(world);
    two.step();
    std::map<ActionKind, int> calls;
    for (const ActionKind kind :
         {ActionKind::Unshard, ActionKind::Reshard, ActionKind::ReduceGrad})
      two.pipeline->replace(kind, [&calls, &world](ActionContext& context) {
        EXPECT_EQ(context.action().stage(), world.rank());
        ++calls[context.action().kind()];
        context.run();
      });
    two.step();
    EXPECT_EQ(calls[ActionKind::ReduceGrad], 1);
    EXPECT_GE(calls[ActionKind::Unshard], 1);
    EXPECT_EQ(calls[ActionKind::Unshard], calls[ActionKind::Reshard]);
    // Null puts it back, and the report is still about the last step.
    for (const ActionKind kind :
         {ActionKind::Unshard, ActionKind::Reshard, ActionKind::ReduceGrad})
      two.pipeline->replace(kind, nullptr);
    EXPECT_GT(two.pipeline->report().measured.makespan, 0);
    two.step();
    EXPECT_EQ(calls[ActionKind::ReduceGrad], 1);
    int after = 0;
    two.pipeline->add_after({ActionKind::ReduceGrad, world.rank()}, [&] { ++after; });
    two.step();
    EXPECT_EQ(after, 1);
  });
}

TEST(PipelineRanks, WhatWouldNeverBeCalledIsRefused) {
  testing::run_world(Backend::Local, 2, [](const comm::Group& world) {
    PipelineOptions options;
    options.custom = sched::lower(
        sched::generate("1F1B", {.ranks = 2, .microbatches = 4}), {.sharding = false});
    TwoRanks two(world, options);
    EXPECT_TRUE(testing::contains(
        testing::message_of<InvalidArgument>([&] {
          two.pipeline->replace(ActionKind::ReduceGrad, [](ActionContext&) {});
        }),
        "expected a schedule with REDUCE_GRAD"));
    EXPECT_NO_THROW(two.pipeline->replace(ActionKind::ReduceGrad, nullptr));
    EXPECT_TRUE(testing::contains(
        testing::message_of<InvalidArgument>([&] {
          two.pipeline->add_after({ActionKind::Forward, 1 - world.rank(), 0}, [] {});
        }),
        text("got ", 1 - world.rank(), "F0")));
    two.step();
  });
}

TEST(PipelineRanks, HandlersSeeTheStepAndBothHalvesOfAnOverlap) {
  testing::run_world(Backend::Local, 2, [](const comm::Group& world) {
    const auto owners = sched::map_stages(sched::StageMap::V, 2, 4);
    std::vector<Stage> mine;
    for (const int stage : sched::stages_of(owners, world.rank()))
      mine.push_back(
          {stage,
           matrix_stage((at::arange(16, at::kFloat).view({4, 4}) + stage)
                            .sin()
                            .set_requires_grad(true))});
    const auto loss = [](const Tensors& out, const Tensors& target) {
      return (out[0] - target[0]).pow(2).mean();
    };
    const at::Tensor x = at::arange(64, at::kFloat).view({16, 4}).sin();
    const auto gradients = [&](bool handled) {
      Pipeline pipeline(
          mine, world, loss, {.schedule = "DualPipeV", .microbatches = 8});
      int halves = 0;
      if (handled) {
        pipeline.replace(ActionKind::Overlap, [&](ActionContext& context) {
          context.run_backward();
          context.run_forward();
          ++halves;
        });
        pipeline.replace(ActionKind::Forward, [&](ActionContext& context) {
          const StepData& data = context.data();
          EXPECT_EQ(data.inputs.size(), world.rank() == 0 ? 8U : 0U);
          EXPECT_EQ(data.targets.size(), world.rank() == 0 ? 8U : 0U);
          context.run();
          if (context.action().stage() == 3) {
            EXPECT_TRUE(data.losses[static_cast<size_t>(context.action().microbatch())]
                            .defined());
          }
          EXPECT_TRUE(testing::contains(
              testing::message_of<InvalidArgument>([&] { context.run_backward(); }),
              "expected an overlap to run half of"));
        });
      }
      pipeline.step({x}, {x.flip(0)});
      EXPECT_EQ(halves > 0, handled);
      std::vector<at::Tensor> found;
      for (const auto& [name, tensor] : pipeline.parameters()) {
        found.push_back(tensor.grad().clone());
        tensor.mutable_grad().reset();
      }
      return found;
    };
    const auto plain = gradients(false);
    const auto handled = gradients(true);
    for (size_t i = 0; i < plain.size(); ++i)
      EXPECT_TRUE(at::allclose(plain[i], handled[i]));
  });
}

// -- what modules know, and add

TEST(PipelineRanks, ModulesKnowWhereTheyAreInTheStep) {
  testing::run_world(Backend::Local, 2, [](const comm::Group& world) {
    std::vector<std::array<int64_t, 4>> seen;
    const at::Tensor w = at::eye(4).set_requires_grad(true);
    const StagePtr stage = make_stage(
        TensorsFunction([&, w](const Tensors& in) {
          const ForwardContext* now = forward_context();
          seen.push_back({now->stage, now->microbatch, now->microbatches, now->step});
          return Tensors{in[0].matmul(w)};
        }),
        {{"w", w}});
    Pipeline pipeline(
        {{world.rank(), stage}},
        world,
        [](const Tensors& out, const Tensors&) {
          EXPECT_EQ(forward_context()->stage, 1);
          return out[0].mean();
        },
        {.schedule = "GPipe"});
    const at::Tensor x = at::ones({2, 4});
    pipeline.step(
        {.inputs = {x},
         .targets = {x},
         .microbatches = 2,
         .step = 30,
         .on_all_ranks = true});
    const std::vector<std::array<int64_t, 4>> expected{
        {world.rank(), 0, 2, 30}, {world.rank(), 1, 2, 30}};
    EXPECT_EQ(seen, expected);
    EXPECT_EQ(forward_context(), nullptr);
  });
}

/// Three stages; the middle one adds an auxiliary loss. `weights` as in Batch.
void auxiliary_equals_one_process(
    const std::string& schedule, const std::vector<double>& weights) {
  std::vector<at::Tensor> initial;
  for (int i = 0; i < 3; ++i)
    initial.push_back((at::arange(16, at::kFloat).view({4, 4}) + 3 * i).sin());
  const at::Tensor x = at::arange(40, at::kFloat).view({10, 4}).cos();
  const auto loss = [](const Tensors& out, const Tensors&) {
    return out[0].pow(2).mean();
  };
  const auto balance = [](const at::Tensor& h) { return h.abs().mean() * 0.3; };
  constexpr int kMicrobatches = 4;
  std::vector<at::Tensor> whole;
  for (const at::Tensor& w : initial)
    whole.push_back(w.clone().set_requires_grad(true));
  double total = 0;
  for (const double weight : weights)
    total += weight;
  const auto parts = x.tensor_split(kMicrobatches);
  std::vector<at::Tensor> added;
  for (int m = 0; m < kMicrobatches; ++m) {
    const at::Tensor& part = parts[static_cast<size_t>(m)];
    const double weight = weights.empty() ? static_cast<double>(part.size(0)) / 10
                                          : weights[static_cast<size_t>(m)] / total;
    const at::Tensor h = part.matmul(whole[0]).tanh().matmul(whole[1]).tanh();
    const at::Tensor out = h.matmul(whole[2]).tanh();
    added.push_back(balance(h).detach());
    torch::autograd::backward(
        {loss({out}, {}), balance(h)}, {at::full({}, weight), at::full({}, weight)});
  }
  testing::run_world(Backend::Shm, 3, [&](const comm::Group& world) {
    const at::Tensor w =
        initial[static_cast<size_t>(world.rank())].clone().set_requires_grad(true);
    const StagePtr stage = make_stage(
        TensorsFunction([&, w](const Tensors& in) {
          const at::Tensor h = in[0].matmul(w).tanh();
          if (world.rank() == 1)
            add_loss(balance(h));
          return Tensors{h};
        }),
        {{"w", w}});
    Pipeline pipeline(
        {{world.rank(), stage}},
        world,
        loss,
        {.schedule = schedule, .microbatches = kMicrobatches, .share_losses = true});
    const StepResult result = pipeline.step(
        {.inputs = {x}, .targets = {x}, .weights = weights, .on_all_ranks = true});
    EXPECT_TRUE(at::allclose(w.grad(), whole[static_cast<size_t>(world.rank())].grad()))
        << schedule;
    EXPECT_EQ(result.auxiliary.size(), world.rank() == 1 ? 1U : 0U);
    if (world.rank() == 1) {
      for (int m = 0; m < kMicrobatches; ++m)
        EXPECT_TRUE(at::allclose(
            result.auxiliary.at(1)[static_cast<size_t>(m)],
            added[static_cast<size_t>(m)]));
    }
    EXPECT_EQ(result.losses.size(), 4U);
    // Evaluation has the value, and no gradient.
    pipeline.evaluate({.inputs = {x}, .targets = {x}, .on_all_ranks = true});
  });
}

TEST(PipelineProcs, AnAuxiliaryLossOfAMiddleStageCounts) {
  for (const char* schedule : {"1F1B", "ZB-H1"}) {
    auxiliary_equals_one_process(schedule, {});
    auxiliary_equals_one_process(schedule, {1, 4, 2, 1});
  }
}

TEST(PipelineRanks, LossesScalesAndOutputsOfAStep) {
  testing::run_world(Backend::Local, 2, [](const comm::Group& world) {
    TwoRanks two(world, {.share_losses = true});
    const StepResult plain = two.step();
    const at::Tensor once = two.weight.grad().clone();
    ASSERT_EQ(plain.losses.size(), 4U);
    EXPECT_EQ(plain.losses[0].scalar_type(), at::kFloat);
    EXPECT_TRUE(plain.outputs.empty());
    at::Tensor others = at::stack(plain.losses);
    comm::broadcast(world, others, 1);
    EXPECT_TRUE(at::equal(others, at::stack(plain.losses)));
    two.weight.mutable_grad().reset();
    const StepResult scaled = two.pipeline->step(
        {.inputs = {two.x},
         .targets = {two.x.flip(0)},
         .on_all_ranks = true,
         .loss_scale = 4,
         .return_outputs = true});
    EXPECT_TRUE(at::allclose(two.weight.grad(), once * 4));
    EXPECT_EQ(scaled.outputs.size(), world.rank() == 1 ? 1U : 0U);
    // The next step is as the options say.
    two.weight.mutable_grad().reset();
    EXPECT_TRUE(two.step().outputs.empty());
    EXPECT_TRUE(at::allclose(two.weight.grad(), once));
  });
}

// A message of 2 x 4 floats takes 32 bytes, and 1F1B holds three of them.
TEST(PipelineRanks, ChannelsHoldNoMoreBytesThanAllowed) {
  testing::run_world(Backend::Local, 2, [](const comm::Group& world) {
    TwoRanks enough(world, {.channel_bytes = 96});
    enough.step();
    EXPECT_TRUE(enough.weight.grad().defined());
    comm::barrier(world);
    TwoRanks less(world, {.channel_bytes = 95});
    const auto step = [&] { less.step(); };
    const std::string message = world.rank() == 0
                                    ? testing::message_of<InvalidArgument>(step)
                                    : testing::message_of<PeerError>(step);
    EXPECT_TRUE(testing::contains(
        message,
        "expected messages of up to 31 bytes from rank 0 to rank 1, since 3 of them "
        "can "
        "be held at once within channel_bytes = 95, got 32"));
  });
}

// -- a model with skips, declared once

LayerList matrix_u_net(const std::vector<at::Tensor>& weights) {
  const auto down = [&](size_t i) {
    return layer("down" + std::to_string(i), [w = weights[i]](const at::Tensor& x) {
      return x.matmul(w).tanh();
    });
  };
  const auto up = [&](size_t i) {
    return layer(
        "up" + std::to_string(i), [w = weights[i]](const Tensors& in) -> Tensors {
          return {(in[0] + in[1]).matmul(w).tanh()};
        });
  };
  return {
      saving(down(0), "top"),
      saving(down(1), "low"),
      down(2),
      taking(up(3), {"low"}),
      taking(up(4), {"top"}),
      taking(up(5), {"top"})};
}

/// Cut after every layer but the last few, so that a skip leads to the next stage,
/// past one stage and past several, and to two stages.
void u_net_equals_one_process(int stages, const std::string& schedule, int ranks) {
  std::vector<at::Tensor> initial;
  for (int i = 0; i < 6; ++i)
    initial.push_back((at::arange(16, at::kFloat).view({4, 4}) + 5 * i).sin());
  const at::Tensor x = at::arange(32, at::kFloat).view({8, 4}).cos();
  const auto copy = [&] {
    std::vector<at::Tensor> weights;
    for (const at::Tensor& w : initial)
      weights.push_back(w.clone().set_requires_grad(true));
    return weights;
  };
  const std::vector<at::Tensor> whole = copy();
  const at::Tensor result = run_layers(matrix_u_net(whole), {x})[0];
  result.pow(2).mean().backward();
  testing::run_world(Backend::Local, ranks, [&](const comm::Group& world) {
    const std::vector<at::Tensor> weights = copy();
    std::vector<sched::LayerRange> ranges;
    for (int i = 0; i < stages; ++i)
      ranges.push_back({6 * i / stages, 6 * (i + 1) / stages});
    const auto cut = split_ranges(matrix_u_net(weights), ranges);
    const auto owners =
        sched::map_stages(sched::find_schedule(schedule).map, ranks, stages);
    std::vector<Stage> mine;
    for (const int stage : sched::stages_of(owners, world.rank()))
      mine.push_back({stage, make_stage(cut[static_cast<size_t>(stage)])});
    Pipeline pipeline(
        mine,
        world,
        [](const Tensors& out, const Tensors&) {
          EXPECT_EQ(out.size(), 1U);
          return out[0].pow(2).mean();
        },
        {.schedule = schedule, .microbatches = 4});
    pipeline.step({x}, {x});
    for (const Stage& stage : mine) {
      const auto& range = ranges[static_cast<size_t>(stage.index)];
      for (int i = range.first; i < range.last; ++i)
        EXPECT_TRUE(at::allclose(
            weights[static_cast<size_t>(i)].grad(),
            whole[static_cast<size_t>(i)].grad(),
            1e-4,
            1e-6))
            << schedule << ", " << stages << " stages, weight " << i;
    }
    // Nothing is left over for evaluation either.
    EXPECT_EQ(
        pipeline.forward_only({.inputs = {x}, .on_all_ranks = true}).size(),
        owners.back() == world.rank() ? 1U : 0U);
  });
}

TEST(PipelineRanks, AUNetIsDeclaredOnceAndCutAnywhere) {
  u_net_equals_one_process(1, "GPipe", 1);
  u_net_equals_one_process(2, "1F1B", 2);
  u_net_equals_one_process(3, "ZB-H1", 3);
  u_net_equals_one_process(4, "ZBVZeroBubble", 2);
  u_net_equals_one_process(6, "Interleaved1F1B", 3);
}

// -- small things that programs had to write again and again

TEST(Pipeline, ParametersOfStagesForASync) {
  struct Parameter {
    std::string name;
    at::Tensor tensor;
    bool sparse = false;
  };
  struct StageParameters {
    int stage = 0;
    std::vector<Parameter> parameters;
  };
  const at::Tensor a = at::ones({2}), b = at::zeros({3});
  const auto all =
      stage_parameters<StageParameters>({{4, matrix_stage(a)}, {7, matrix_stage(b)}});
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].stage, 7);
  ASSERT_EQ(all[1].parameters.size(), 1U);
  EXPECT_EQ(all[1].parameters[0].name, "w");
  EXPECT_TRUE(all[1].parameters[0].tensor.is_same(b));
}

}  // namespace
}  // namespace trireme::pipe
