// Reports and profiles of real steps.
#include <atomic>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../pipe/models.h"
#include "pipeline_case.h"
#include "trireme/core/error.h"
#include "trireme/pipe/profile.h"
#include "trireme/sched/action_text.h"
#include "trireme/sched/generate.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using testing::Backend;
using testing::contains;

TEST(PipelineSeeingProcs, ReportOfAStep) {
  const Problem problem = dense_problem("ZBVZeroBubble", 4, 6, 60);
  for (const Backend backend : {Backend::Local, Backend::Shm})
    testing::run_world(backend, 2, [&](const comm::Group& world) {
      PipelineRank rank(problem, world);
      EXPECT_THROW(rank.pipeline().report(), InvalidArgument);
      rank.step();
      sched::Costs costs;
      costs.stages.assign(
          4, {.forward = 1e-4, .input_grad = 1e-4, .weight_grad = 1e-4});
      const StepReport report = rank.pipeline().report(costs);
      EXPECT_EQ(report.schedule.name, "ZBVZeroBubble");
      ASSERT_EQ(report.timelines.size(), 2u);
      ASSERT_EQ(report.peak_bytes.size(), 2u);
      for (const Timeline& timeline : report.timelines) {
        EXPECT_LT(timeline.start_ns, timeline.end_ns);
        int64_t end = timeline.start_ns;
        for (const ActionTime& one : timeline.actions) {
          EXPECT_LE(one.start_ns, one.end_ns);
          EXPECT_LE(end, one.end_ns);
          end = one.end_ns;
        }
      }
      const sched::Simulation& measured = report.measured;
      EXPECT_GT(measured.ideal, 0);
      EXPECT_GE(measured.makespan, measured.ideal);
      EXPECT_GE(measured.wall_bubble, 0);
      ASSERT_EQ(measured.busy.size(), 2u);
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_GT(measured.busy[i], 0);
        EXPECT_NEAR(measured.busy[i] + measured.idle[i], measured.makespan, 1e-6);
      }
      // Six microbatches of two stages, with F, I and W (or B) each.
      EXPECT_GE(measured.timeline[0].size(), 2u * 6 * 2);
      ASSERT_TRUE(report.predicted);
      EXPECT_NEAR(report.predicted->ideal, 6 * 2 * 3e-4, 1e-9);
      EXPECT_TRUE(contains(to_text(report), "ZBVZeroBubble"));
      EXPECT_TRUE(contains(to_svg(report), "<svg"));
      EXPECT_TRUE(contains(to_trace(report), "traceEvents"));
    });
}

TEST(PipelineSeeingProcs, ProfileMeasuresAndLeavesNothing) {
  Problem problem = dense_problem("1F1B", 2, 4, 64);
  problem.model = [] {
    std::vector<StagePtr> model = dense_model(2, 6)();
    const at::Tensor seen = at::zeros({}, at::kLong);
    model[1] = make_stage(
        [seen, inner = model[1]](const Tensors& in) {
          seen.add_(1);
          return inner->forward(in);
        },
        model[1]->parameters(),
        {{"seen", seen}});
    return model;
  };
  const Outcome wanted = run_alone(problem, 2);
  for (const Backend backend : {Backend::Local, Backend::Shm})
    testing::run_world(backend, 2, [&](const comm::Group& world) {
      PipelineRank rank(problem, world);
      rank.step();
      const sched::CostFile file =
          profile(rank.pipeline(), rank.share(problem.batch), {.steps = 2});
      ASSERT_EQ(file.costs.stages.size(), 2u);
      for (const sched::StageCosts& stage : file.costs.stages) {
        EXPECT_GT(stage.forward, 0);
        EXPECT_GT(stage.input_grad + stage.weight_grad, 0);
        EXPECT_GT(stage.backward, 0);
        EXPECT_EQ(stage.weight_bytes, (36 + 6) * 4);
      }
      // It is what `trireme schedule plan` reads, on every rank.
      EXPECT_EQ(
          sched::to_json(sched::parse_costs(sched::to_json(file), "costs")),
          sched::to_json(file));
      // Gradients and buffers are those of the first step; with a second one, of two.
      rank.expect(wanted, rank.step());
      rank.expect_buffers(wanted);
    });
}

// The halves of overlaps really ran at the same time, and both files show it.
TEST(PipelineSeeingRanks, HalvesOfOverlapsAreSeenApart) {
  Problem problem = dense_problem("DualPipeV", 4, 8);
  problem.options.overlap = OverlapMode::AtOnce;
  testing::run_world(Backend::Local, 2, [&](const comm::Group& world) {
    PipelineRank rank(problem, world);
    // Each half waits for the other, so that no slow start can keep them apart.
    std::atomic<int> awaited = 0;
    rank.pipeline().replace(sched::ActionKind::Overlap, [&](ActionContext& context) {
      awaited = 2;
      context.run();
    });
    for (const auto kind : {sched::ActionKind::Forward, sched::ActionKind::Backward})
      rank.pipeline().replace(kind, [&](ActionContext& context) {
        if (awaited > 0)
          --awaited;
        while (awaited > 0)
          std::this_thread::yield();
        context.run();
      });
    rank.step();
    const StepReport report = rank.pipeline().report();
    const std::string trace = to_trace(report);
    for (size_t r = 0; r < 2; ++r) {
      int overlaps = 0, at_once = 0;
      for (const ActionTime& one : report.timelines[r].actions) {
        if (one.action.kind() != sched::ActionKind::Overlap)
          continue;
        ++overlaps;
        EXPECT_TRUE(one.has_halves());
        at_once += one.at_once();
        EXPECT_TRUE(contains(
            trace, text("\"name\":\"", sched::to_string(one.action.backward_half()))));
      }
      EXPECT_GT(overlaps, 0);
      EXPECT_EQ(at_once, overlaps);
      EXPECT_TRUE(contains(trace, text("rank ", r, ", overlap")));
    }
    EXPECT_FALSE(contains(trace, "OVERLAP_F_B"));
    EXPECT_FALSE(contains(to_svg(report), "OVERLAP_F_B"));
  });
}

}  // namespace
}  // namespace trireme::pipe
