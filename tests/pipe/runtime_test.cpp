#include "trireme/pipe/runtime.h"

#include <atomic>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/pipe/module_stage.h"
#include "trireme/sched/csv.h"

namespace trireme::pipe {
namespace {

using sched::Action;
using sched::ActionKind;

/// Two stages on one rank, which need no channels.
class TwoStages {
 public:
  explicit TwoStages(const char* csv)
      : program(make_program(sched::parse_csv(csv, "two"))),
        runtime(
            {{0, stage(first)}, {1, stage(second)}},
            Links(2, {}),
            {.loss = [](const Tensors& out, const Tensors&) {
              return at::sum(out[0]);
            }}) {}

  void step() {
    StepData data{
        .inputs = {{at::ones({1})}, {at::full({1}, 2.0)}},
        .targets = {{at::ones({1})}, {at::ones({1})}},
        .loss_weights = {1, 1},
        .samples = {{0, 1}, {1, 1}}};
    data.losses.resize(2);
    runtime.run(program, {}, 0, data);
  }

  at::Tensor first = at::full({1}, 3.0).set_requires_grad(true);
  at::Tensor second = at::full({1}, 5.0).set_requires_grad(true);
  Program program;
  Runtime runtime;

 private:
  static StagePtr stage(const at::Tensor& w) {
    const StagePtr made = make_stage(
        TensorsFunction([w](const Tensors& in) { return Tensors{at::mul(in[0], w)}; }),
        {{"w", w}});
    made->allow_overlap();
    return made;
  }
};

TEST(Runtime, WalksTheListAndAddsUpGradients) {
  TwoStages two("0F0,1F0,0F1,1F1,1B0,0B0,1I1,0I1,1W1,0W1\n");
  two.step();
  EXPECT_EQ(two.first.grad().item<double>(), 5 * (1 + 2));
  EXPECT_EQ(two.second.grad().item<double>(), 3 * (1 + 2));
  ASSERT_EQ(two.runtime.timeline().actions.size(), 10U);
  for (const ActionTime& one : two.runtime.timeline().actions)
    EXPECT_LE(one.start_ns, one.end_ns);
}

TEST(Runtime, OverlapsRunAtOnceOrInTurn) {
  for (const bool at_once : {true, false}) {
    TwoStages two("0F0,1F0,0F1,(1F1;1B0)OVERLAP_F_B,1B1,0B0,0B1\n");
    two.runtime.set_overlap(at_once);
    two.step();
    EXPECT_EQ(two.first.grad().item<double>(), 15);
  }
}

TEST(Runtime, HandlersReplaceActionsAndExtrasFollowThem) {
  TwoStages two("0F0,1F0,0F1,1F1,1B0,0B0,1B1,0B1\n");
  std::string log;
  two.runtime.replace(ActionKind::Forward, [&](ActionContext& context) {
    log += context.action().stage() == 0 ? "a" : "b";
    context.run();
  });
  two.runtime.add(Action(ActionKind::Backward, 0, 0), [&] { log += "!"; });
  two.step();
  EXPECT_EQ(log, "abab!");
  two.runtime.replace(ActionKind::Forward, nullptr);
  two.step();
  EXPECT_EQ(log, "abab!!");
}

TEST(Runtime, ExtrasFollowTheHalvesOfAnOverlapToo) {
  TwoStages two("0F0,1F0,0F1,(1F1;1B0)OVERLAP_F_B,1B1,0B0,0B1\n");
  int calls = 0;
  two.runtime.add(Action(ActionKind::Backward, 1, 0), [&] { ++calls; });
  two.step();
  EXPECT_EQ(calls, 1);
}

TEST(Runtime, MessagesCannotBeReplaced) {
  TwoStages two("0F0,1F0,0F1,1F1,1B0,0B0,1B1,0B1\n");
  for (const ActionKind kind :
       {ActionKind::SendForward, ActionKind::ReceiveBackward, ActionKind::Bubble})
    EXPECT_THROW(two.runtime.replace(kind, [](ActionContext&) {}), InvalidArgument);
}

TEST(Runtime, KnowsWhereItFailed) {
  TwoStages two("0F0,1F0,0F1,1F1,1B0,0B0,1B1,0B1\n");
  two.runtime.replace(ActionKind::Backward, [](ActionContext& context) {
    if (context.action() == Action(ActionKind::Backward, 0, 0))
      throw std::runtime_error("no");
    context.run();
  });
  EXPECT_THROW(two.step(), std::runtime_error);
  EXPECT_EQ(two.runtime.position(), 5);
  two.runtime.clear();
  two.runtime.replace(ActionKind::Backward, nullptr);
  two.first.mutable_grad() = at::Tensor();
  two.step();
  EXPECT_EQ(two.first.grad().item<double>(), 15);
}

TEST(Runtime, TimesTheHalvesOfAnOverlap) {
  for (const bool at_once : {true, false}) {
    TwoStages two("0F0,1F0,0F1,(1F1;1B0)OVERLAP_F_B,1B1,0B0,0B1\n");
    two.runtime.set_overlap(at_once);
    std::atomic<int> begun = 0;
    for (const ActionKind kind : {ActionKind::Forward, ActionKind::Backward})
      two.runtime.replace(kind, [&](ActionContext& context) {
        const bool half = context.action() == Action(ActionKind::Forward, 1, 1) ||
                          context.action() == Action(ActionKind::Backward, 1, 0);
        begun += half;
        // Each waits for the other, so that no slow start can keep them apart.
        while (half && at_once && begun < 2)
          std::this_thread::yield();
        context.run();
      });
    two.step();
    const ActionTime& both = two.runtime.timeline().actions.at(3);
    ASSERT_EQ(both.action.kind(), ActionKind::Overlap);
    ASSERT_TRUE(both.has_halves());
    EXPECT_EQ(both.at_once(), at_once);
    for (const Interval& half : {both.forward, both.backward}) {
      EXPECT_LE(both.start_ns, half.start_ns);
      EXPECT_LE(half.end_ns, both.end_ns);
      EXPECT_LE(half.start_ns, half.end_ns);
    }
    for (const size_t other : {0, 4})
      EXPECT_FALSE(two.runtime.timeline().actions.at(other).has_halves());
  }
}

// Collectives of two threads have no common order: a stage has to say that it has none.
TEST(Runtime, OverlapsRunInTurnUnlessBothStagesAllowIt) {
  for (const size_t refuses : {0, 1}) {
    TwoStages two("0F0,1F0,1B0,(0F1;0B0)OVERLAP_F_B,1F1,1B1,0B1\n");
    TwoStages both("0F0,1F0,1B0,0F1,(1F1;0B0)OVERLAP_F_B,1B1,0B1\n");
    for (TwoStages* each : {&two, &both}) {
      each->runtime.stages()[refuses].module->allow_overlap(false);
      each->runtime.set_overlap(true);
      std::atomic<int> elsewhere = 0;
      const std::thread::id here = std::this_thread::get_id();
      for (const ActionKind kind : {ActionKind::Forward, ActionKind::Backward})
        each->runtime.replace(kind, [&](ActionContext& context) {
          elsewhere += std::this_thread::get_id() != here;
          context.run();
        });
      each->step();
      EXPECT_EQ(each->first.grad().item<double>(), 15);
      // The first of them overlaps stage 0 with itself, and stage 1 has no say in it.
      EXPECT_EQ(elsewhere, each == &two && refuses == 1 ? 1 : 0);
    }
  }
}

// A stage may begin with an operation in place; what it gets is no leaf.
TEST(Runtime, StagesMayChangeTheirInputs) {
  const Program program =
      make_program(sched::parse_csv("0F0,1F0,1I0,0I0,1W0,0W0\n", "one"));
  const at::Tensor w = at::full({2}, 3.0).set_requires_grad(true);
  const at::Tensor v = at::full({2}, 5.0).set_requires_grad(true);
  const auto stage = [](const at::Tensor& weight) {
    return make_stage(
        [weight](const Tensors& in) { return Tensors{in[0].relu_() * weight}; },
        {{"w", weight}});
  };
  Runtime runtime(
      {{0, stage(w)}, {1, stage(v)}},
      Links(2, {}),
      {.loss = [](const Tensors& out, const Tensors&) { return at::sum(out[0]); }});
  StepData data{
      .inputs = {{at::tensor({1.0F, -1.0F})}},
      .targets = {{at::ones({1})}},
      .loss_weights = {1},
      .samples = {{0, 2}}};
  data.losses.resize(1);
  runtime.run(program, {}, 0, data);
  EXPECT_TRUE(at::equal(w.grad(), at::tensor({5.0F, 0.0F})));
  EXPECT_TRUE(at::equal(v.grad(), at::tensor({3.0F, 0.0F})));
}

// Outputs of one memory that go to two stages: the first one's changes are its own. By
// name, it is even one output.
TEST(Runtime, WhatTwoStagesGetIsNotOneMemory) {
  const std::vector<Links> all{
      Links(3, {{.from = 0, .output = 1, .to = 2}}),
      Links(3, {}, {{.saved = {"s"}}, {.taken = {"s"}}, {.taken = {"s"}}})};
  for (const Links& links : all) {
    sched::Schedule schedule = sched::parse_csv("0F0,1F0,2F0,2B0,1B0,0B0\n", "skip");
    schedule.extra_edges = links.extra_edges();
    const Program program = make_program(schedule);
    const at::Tensor w = at::full({2}, 3.0).set_requires_grad(true);
    const TensorsFunction doubles = [w](const Tensors& in) {
      const at::Tensor y = in[0] * w;
      return Tensors{y, y};
    };
    const TensorsFunction zeroes = [](const Tensors& in) {
      for (const at::Tensor& each : in)
        each.zero_();
      return Tensors{in[0]};
    };
    const TensorsFunction adds = [](const Tensors& in) {
      return Tensors{in[0] + in[1]};
    };
    Runtime runtime(
        {{0, make_function_stage(doubles, {{"w", w}}, {})},
         {1, make_function_stage(zeroes, {}, {})},
         {2, make_function_stage(adds, {}, {})}},
        links,
        {.loss = [](const Tensors& out, const Tensors&) { return at::sum(out[0]); }});
    StepData data{
        .inputs = {{at::ones({2})}},
        .targets = {{at::ones({1})}},
        .loss_weights = {1},
        .samples = {{0, 2}}};
    data.losses.resize(1);
    runtime.run(program, {}, 0, data);
    EXPECT_EQ(data.losses[0].item<double>(), 6);
    EXPECT_TRUE(at::equal(w.grad(), at::ones({2})));
  }
}

TEST(Runtime, AnOverlapThatWasReplacedHasNoHalves) {
  TwoStages two("0F0,1F0,0F1,(1F1;1B0)OVERLAP_F_B,1B1,0B0,0B1\n");
  two.step();
  EXPECT_TRUE(two.runtime.timeline().actions.at(3).has_halves());
  two.runtime.replace(
      ActionKind::Overlap, [](ActionContext&) { throw std::runtime_error("no"); });
  EXPECT_THROW(two.step(), std::runtime_error);
  EXPECT_EQ(two.runtime.timeline().actions.size(), 3U);
}

}  // namespace
}  // namespace trireme::pipe
