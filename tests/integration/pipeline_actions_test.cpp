// What a rank does in a step, and when: schedules of one's own, handlers, overlaps,
// syncs, and what is kept of a tensor that has been sent.
#include <atomic>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../pipe/models.h"
#include "pipeline_case.h"
#include "trireme/core/deadline.h"
#include "trireme/core/error.h"
#include "trireme/pipe/profile.h"
#include "trireme/sched/action_text.h"
#include "trireme/sched/csv.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using sched::Action;
using sched::ActionKind;
using testing::Backend;

constexpr int64_t kWidth = 6;

// -- schedules of one's own

void equals_one_process(const std::string& name, const std::string& csv) {
  const sched::Schedule schedule = sched::parse_csv(csv, name);
  Problem problem = dense_problem("", schedule.stages(), schedule.microbatches, 5);
  problem.options.custom = schedule;
  problem.options.microbatches = 0;
  const Outcome wanted = run_alone(problem);
  for (const Backend backend : {Backend::Local, Backend::Shm})
    testing::run_world(backend, schedule.ranks(), [&](const comm::Group& world) {
      SCOPED_TRACE(text(name, ", rank ", world.rank(), " of ", world.backend()));
      PipelineRank rank(problem, world);
      rank.expect(wanted, rank.step());
      // Once more: nothing was left over.
      rank.zero_grad();
      rank.expect(wanted, rank.step());
    });
}

TEST(PipelineActionsProcs, CustomSchedules) {
  equals_one_process(
      "V-shaped",
      "0F0,,,3F0,3B0,,,0B0\n"
      ",1F0,2F0,,,2B0,1B0,\n");
  equals_one_process(
      "unbalanced",
      "0F0,1F0,0F1,1F1,4F0,4B0,4F1,4B1,1B0,0B0,1B1,0B1\n"
      "2F0,3F0,2F1,3F1,3B0,2B0,3B1,2B1\n");
  equals_one_process(
      "with I and W",
      "0F0,0F1,2F0,2F1,2I0,2I1,2W0,2W1,0I0,0I1,0W0,0W1\n"
      "1F0,1F1,3F0,3I0,3F1,3I1,3W0,3W1,1I0,1I1,1W0,1W1\n");
}

TEST(PipelineActionsProcs, CustomMessages) {
  equals_one_process(
      "backwards in another order",
      "0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B1,0RECV_B0,0B1,0B0\n"
      "1RECV_F0,1RECV_F1,1F0,1F1,1B1,1SEND_B1,1B0,1SEND_B0\n");
  // Both gradients are there before the first is used, and the last comes first.
  equals_one_process(
      "receives before they are used",
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0RECV_B1,0B1,0B0\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
}

// -- handlers

TEST(PipelineActionsProcs, HandlersInPlaceOfActions) {
  const Problem problem = dense_problem("DualPipeV", 4, 8, 17);
  const Outcome wanted = run_alone(problem);
  for (const Backend backend : {Backend::Local, Backend::Shm})
    testing::run_world(backend, 2, [&](const comm::Group& world) {
      PipelineRank rank(problem, world);
      std::atomic<int> forwards = 0;
      std::atomic<int> overlaps = 0;
      int after = 0;
      rank.pipeline().replace(ActionKind::Forward, [&](ActionContext& context) {
        EXPECT_EQ(context.action().kind(), ActionKind::Forward);
        EXPECT_EQ(context.module().parameters().size(), 2u);
        ++forwards;
        context.run();
      });
      rank.pipeline().replace(ActionKind::Overlap, [&](ActionContext& context) {
        ++overlaps;
        context.run();
      });
      const int first = rank.pipeline().stages()[0].index;
      int wanted_overlaps = 0;
      for (const Action& action :
           rank.pipeline().schedule().actions[static_cast<size_t>(world.rank())])
        if (action.kind() == ActionKind::Overlap) {
          if (wanted_overlaps++ == 0)
            rank.pipeline().add_after(action, [&] { ++after; });
        }
      rank.pipeline().add_after(
          {ActionKind::WeightGrad, first, 99}, [] { FAIL() << "no such action"; });
      rank.expect(wanted, rank.step());
      EXPECT_EQ(forwards, 2 * 8);
      EXPECT_GT(wanted_overlaps, 0);
      EXPECT_EQ(overlaps, wanted_overlaps);
      EXPECT_EQ(after, 1);
      // Null puts the pipeline's own back.
      rank.pipeline().replace(ActionKind::Forward, nullptr);
      rank.zero_grad();
      rank.expect(wanted, rank.step());
      EXPECT_EQ(forwards, 2 * 8);
      EXPECT_EQ(after, 2);
      EXPECT_THROW(
          rank.pipeline().replace(ActionKind::SendForward, [](ActionContext&) {}),
          InvalidArgument);
    });
}

/// Writes down what it is asked for.
class LoggedSync : public autograd::GradientSync {
 public:
  void last_backward(int stage) override { log.push_back(text("last ", stage)); }
  void reduce(int stage) override { log.push_back(text("reduce ", stage)); }
  void finish() override { log.push_back("finish"); }
  void abandon() noexcept override { log.push_back("abandon"); }
  void leave_to_finish(const std::vector<at::Tensor>& leaves) override {
    late = leaves.size();
  }
  void unshard(int stage) override { log.push_back(text("unshard ", stage)); }
  void reshard(int stage) override { log.push_back(text("reshard ", stage)); }
  std::vector<std::string> log;
  size_t late = 0;
};

size_t place_of(const std::vector<std::string>& log, const std::string& entry) {
  EXPECT_EQ(std::count(log.begin(), log.end(), entry), 1) << entry;
  return static_cast<size_t>(std::find(log.begin(), log.end(), entry) - log.begin());
}

void syncs_in_order(const char* name) {
  SCOPED_TRACE(name);
  const Problem problem = dense_problem(name, 4, 4);
  const Outcome wanted = run_alone(problem);
  testing::run_world(Backend::Local, 2, [&](const comm::Group& world) {
    const auto sync = std::make_shared<LoggedSync>();
    Problem mine = problem;
    mine.options.sync = sync;
    PipelineRank rank(mine, world);
    std::vector<std::string>& log = sync->log;
    for (const ActionKind kind : {ActionKind::Backward, ActionKind::WeightGrad})
      rank.pipeline().replace(kind, [&log](ActionContext& context) {
        context.run();
        log.push_back(text("done ", context.action().stage()));
      });
    rank.expect(wanted, rank.step());
    EXPECT_EQ(log.back(), "finish");
    place_of(log, "finish");
    for (const Stage& stage : rank.pipeline().stages()) {
      const size_t announced = place_of(log, text("last ", stage.index));
      const size_t reduced = place_of(log, text("reduce ", stage.index));
      EXPECT_LT(announced, reduced);
      // One more backward comes after the announcement, and none after the reduction.
      const std::string done = text("done ", stage.index);
      const auto from = log.begin() + static_cast<std::ptrdiff_t>(announced);
      const auto to = log.begin() + static_cast<std::ptrdiff_t>(reduced);
      EXPECT_EQ(std::count(from, to, done), 1);
      EXPECT_EQ(std::count(to, log.end(), done), 0);
      const auto count = [&](const char* what) {
        return std::count(log.begin(), log.end(), text(what, " ", stage.index));
      };
      EXPECT_GT(count("unshard"), 0);
      EXPECT_EQ(count("unshard"), count("reshard"));
    }
  });
}

TEST(PipelineActionsRanks, SyncIsToldInOrder) {
  for (const char* name : {"Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble"})
    syncs_in_order(name);
}

// -- overlaps

/// Two that wait for one another: it works only if they run at the same time.
class Meeting {
 public:
  void come(int who) {
    there_[who] = true;
    const Deadline deadline = Deadline::after(std::chrono::seconds(10));
    while (!there_[1 - who] && !deadline.expired())
      std::this_thread::yield();
    if (!there_[1 - who])
      ADD_FAILURE() << (who == 0 ? "forward" : "backward") << " was alone";
  }

 private:
  std::array<std::atomic<bool>, 2> there_{};
};

TEST(PipelineActionsRanks, OverlapRunsBothHalvesAtOnce) {
  Problem problem = dense_problem("", 2, 2);
  problem.options.custom =
      sched::parse_csv("0F0,1F0,(0F1;1B0)OVERLAP_F_B,1F1,0B0,1B1,0B1\n", "overlap");
  const Outcome wanted = run_alone(problem);
  const auto meeting = std::make_shared<Meeting>();
  const ModelMaker plain = problem.model;
  problem.model = [=] {
    std::vector<StagePtr> model = plain();
    const std::vector<StagePtr> inner = model;
    const auto calls = std::make_shared<std::array<int, 2>>();
    model[0] = make_stage(
        [=](const Tensors& in) {
          if ((*calls)[0]++ == 1)
            meeting->come(0);
          return inner[0]->forward(in);
        },
        inner[0]->parameters());
    model[1] = make_stage(
        [=](const Tensors& in) {
          const Tensors out = inner[1]->forward(in);
          if ((*calls)[1]++ == 0)
            out[0].register_hook([=](const at::Tensor&) { meeting->come(1); });
          return out;
        },
        inner[1]->parameters());
    return model;
  };
  testing::run_world(Backend::Local, 1, [&](const comm::Group& world) {
    PipelineRank rank(problem, world);
    rank.expect(wanted, rank.step());
  });
}

// -- what becomes of tensors

TEST(PipelineActionsRanks, NeighboursOnOneRankShareTheTensor) {
  Problem problem = dense_problem("ZBVZeroBubble", 4, 4);
  const ModelMaker plain = problem.model;
  // By stage: where its output was, and where its input was.
  std::array<std::vector<const void*>, 4> outputs;
  std::array<std::vector<const void*>, 4> inputs;
  problem.model = [&] {
    std::vector<StagePtr> model = plain();
    for (size_t i = 0; i < 4; ++i)
      model[i] = make_stage(
          [&, i, inner = model[i]](const Tensors& in) {
            inputs[i].push_back(in[0].const_data_ptr());
            const Tensors out = inner->forward(in);
            outputs[i].push_back(out[0].const_data_ptr());
            return out;
          },
          model[i]->parameters());
    return model;
  };
  testing::run_world(Backend::Local, 2, [&](const comm::Group& world) {
    PipelineRank(problem, world).step();
  });
  EXPECT_EQ(outputs[1].size(), 4u);
  EXPECT_EQ(outputs[1], inputs[2]);
}

// The gradient edge is all that is kept: the activation is gone before its backward.
TEST(PipelineActionsProcs, WhatWasSentIsGone) {
  Problem problem = dense_problem("1F1B", 2, 4);
  problem.model = [] {
    std::vector<StagePtr> model = dense_model(2, kWidth)();
    const at::Tensor w = parameter({kWidth, kWidth}, 5);
    model[0] = make_stage(
        [w](const Tensors& in) {
          // A product does not keep its result for backward.
          const at::Tensor out = in[0].mm(w);
          out.register_hook([kept = out.storage().getWeakStorageImpl()](
                                const at::Tensor&) { EXPECT_TRUE(kept.expired()); });
          return Tensors{out};
        },
        {{"w", w}});
    return model;
  };
  for (const char* name : {"GPipe", "1F1B", "ZB-H1"}) {
    problem.options.schedule = name;
    testing::run_world(Backend::Shm, 2, [&](const comm::Group& world) {
      PipelineRank rank(problem, world);
      rank.step();
      if (rank.has(0)) {
        EXPECT_TRUE(rank.pipeline().parameters()[0].second.grad().defined());
      }
    });
  }
}

}  // namespace
}  // namespace trireme::pipe
