// Wrong input: one message on the rank that has it, and the same from there on all
// others.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include "../pipe/models.h"
#include "pipeline_case.h"
#include "trireme/core/error.h"
#include "trireme/pipe/jit_stage.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using testing::Backend;
using testing::contains;

constexpr int64_t kBadWidth = 6;
constexpr int kBadRanks = 3;

/// A step that goes wrong on one rank.
struct BadStep {
  int rank;
  /// What the message names: the place, what was expected and what came.
  std::vector<std::string> says;
  std::function<void(Batch&)> spoil = [](Batch&) {};
  /// What the pipeline is made of.
  Problem problem = dense_problem("1F1B", kBadRanks, 4);
};

/// E on the rank that is wrong, and PeerError with the same words on the others; both
/// soon, since the time allowed is short.
template <class E>
void is_refused(const BadStep& bad) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    testing::run_world(
        backend,
        kBadRanks,
        [&](const comm::Group& world) {
          SCOPED_TRACE(text("rank ", world.rank(), " of ", world.backend()));
          PipelineRank rank(bad.problem, world);
          Batch batch = rank.share(bad.problem.batch);
          const bool here = world.rank() == bad.rank;
          if (here)
            bad.spoil(batch);
          const auto step = [&] { rank.pipeline().step(batch); };
          const std::string message = here ? testing::message_of<E>(step)
                                           : testing::message_of<PeerError>(step);
          for (const std::string& part : bad.says)
            EXPECT_TRUE(contains(message, part));
        },
        {.timeout = std::chrono::seconds(10)});
}

TEST(PipelineBadInputProcs, BatchSmallerThanMicrobatches) {
  is_refused<InvalidArgument>(
      {.rank = 0,
       .says = {"expected at least 4 rows", "got 3", "inputs of stage 0, rank 0"},
       .spoil = [](Batch& batch) {
         batch.inputs[0] = batch.inputs[0].slice(0, 0, 3);
       }});
}

TEST(PipelineBadInputProcs, MissingTargets) {
  is_refused<InvalidArgument>(
      {.rank = 2,
       .says = {"expected targets on rank 2", "got none"},
       .spoil = [](Batch& batch) { batch.targets.clear(); }});
}

TEST(PipelineBadInputProcs, MissingInputs) {
  is_refused<InvalidArgument>(
      {.rank = 0,
       .says = {"expected inputs on rank 0", "got none"},
       .spoil = [](Batch& batch) { batch.inputs.clear(); }});
}

TEST(PipelineBadInputProcs, InputsOnAnotherRank) {
  is_refused<InvalidArgument>(
      {.rank = 1,
       .says = {"expected no inputs on rank 1", "stage 0 is on rank 0", "got some"},
       .spoil = [](Batch& batch) {
         batch.inputs = {at::zeros({8, kBadWidth})};
       }});
  is_refused<InvalidArgument>(
      {.rank = 0,
       .says = {"expected no targets on rank 0", "stage 2 is on rank 2", "got some"},
       .spoil = [](Batch& batch) {
         batch.targets = {at::zeros({8, kBadWidth})};
       }});
  is_refused<InvalidArgument>(
      {.rank = 1,
       .says = {"expected no side inputs of stage 2 on rank 1", "got some"},
       .spoil = [](Batch& batch) {
         batch.side_inputs[2] = {at::zeros({8, kBadWidth})};
       }});
}

TEST(PipelineBadInputProcs, WrongNumbersOfLists) {
  is_refused<InvalidArgument>(
      {.rank = 2,
       .says = {"expected 4 microbatches of targets on rank 2", "got 3"},
       .spoil = [](Batch& batch) {
         batch.microbatches = 4;
         batch.target_microbatches = split(batch.targets, 3);
         batch.targets.clear();
       }});
  is_refused<InvalidArgument>(
      {.rank = 2,
       .says = {"expected 4 loss weights", "got 2"},
       .spoil = [](Batch& batch) {
         batch.weights = {1, 2};
       }});
}

TEST(PipelineBadInputProcs, LossWithoutGradient) {
  BadStep bad{
      .rank = 2,
      .says = {
          "rank 2 failed at 2F0 (stage 2, microbatch 0)",
          "expected a loss that can be differentiated",
          "got one without a gradient"}};
  bad.problem.loss = [](const Tensors& out, const Tensors& target) {
    return mean_square(out, target).detach();
  };
  is_refused<InvalidArgument>(bad);
  bad.says = {
      "expected a loss with one element for stage 2, microbatch 0",
      "got a tensor of 12"};
  bad.problem.loss = [](const Tensors& out, const Tensors&) { return out[0]; };
  is_refused<InvalidArgument>(bad);
}

TEST(PipelineBadInputProcs, ShapeThatTheNextStageCannotTake) {
  BadStep bad{
      .rank = 1,
      .says = {"rank 1 failed at 1F0 (stage 1, microbatch 0)", "2x5", ">1F0<"}};
  bad.problem.model = [] {
    std::vector<StagePtr> model = dense_model(kBadRanks, kBadWidth)();
    model[0] = dense("narrow", kBadWidth, kBadWidth - 1, 1);
    return model;
  };
  // An exception of torch's stays one on its own rank.
  is_refused<c10::Error>(bad);
}

TEST(PipelineBadInputProcs, ModuleThatReturnsNoTensor) {
  BadStep bad{
      .rank = 1,
      .says = {
          "rank 1 failed at 1F0 (stage 1, microbatch 0)",
          "expected a TorchScript module that returns a tensor",
          "got int"}};
  bad.problem.model = [] {
    std::vector<StagePtr> model = dense_model(kBadRanks, kBadWidth)();
    torch::jit::Module module("Bad");
    module.register_attribute("training", c10::BoolType::get(), true);
    module.define("def forward(self, x):\n  return 3\n");
    model[1] = make_jit_stage(module);
    return model;
  };
  is_refused<InvalidArgument>(bad);
}

TEST(PipelineBadInputProcs, SkipOfAnOutputThatIsNotThere) {
  BadStep bad{
      .rank = 0,
      .says = {
          "rank 0 failed at 0F0 (stage 0",
          "expected stage 0 to have an output 1",
          "got 1 outputs"}};
  bad.problem.options.skips = {{.from = 0, .output = 1, .to = 2}};
  is_refused<InvalidArgument>(bad);
}

TEST(PipelineBadInputRanks, StepWithoutGradMode) {
  const Problem problem = dense_problem("1F1B", 2, 4);
  testing::run_world(Backend::Local, 2, [&](const comm::Group& world) {
    PipelineRank rank(problem, world);
    const c10::AutoGradMode mode(world.rank() == 1);
    const auto step = [&] { rank.step(); };
    const std::string message = world.rank() == 0
                                    ? testing::message_of<InvalidArgument>(step)
                                    : testing::message_of<PeerError>(step);
    EXPECT_TRUE(contains(message, "expected grad mode on for a step of rank 0"));
  });
}

// Everybody sees these at once, since everybody has the same of them.
TEST(PipelineBadInputRanks, StagesThatDoNotFit) {
  const auto refused = [](const Problem& problem,
                          const std::vector<std::string>& says) {
    testing::run_world(Backend::Local, 2, [&](const comm::Group& world) {
      const std::string message = testing::message_of<InvalidArgument>(
          [&] { PipelineRank rank(problem, world); });
      for (const std::string& part : says)
        EXPECT_TRUE(contains(message, part));
    });
  };
  refused(
      dense_problem("1F1B", 3, 4),
      {"same number of stages on each of 2 ranks", "got 3"});
  refused(dense_problem("1F1B", 4, 4), {"stages a rank of 1F1B", "got 2"});
  refused(
      dense_problem("1F1B", 2, 1), {"at least as many microbatches as ranks", "got 1"});
}

TEST(PipelineBadInputRanks, StagesInTheWrongPlaces) {
  const auto refused = [](std::vector<std::vector<int>> stages_of_rank,
                          const std::string& schedule,
                          const std::vector<std::string>& says) {
    testing::run_world(Backend::Local, 2, [&](const comm::Group& world) {
      std::vector<Stage> mine;
      for (const int stage : stages_of_rank[static_cast<size_t>(world.rank())])
        mine.push_back({stage, dense("fc", kBadWidth, kBadWidth, 1)});
      const std::string message = testing::message_of<InvalidArgument>([&] {
        Pipeline(mine, world, mean_square, {.schedule = schedule, .microbatches = 4});
      });
      for (const std::string& part : says)
        EXPECT_TRUE(contains(message, part));
    });
  };
  refused({{0}, {}}, "1F1B", {"every rank to have a stage", "none on rank 1"});
  refused({{0}, {0}}, "1F1B", {"stage 0 on one rank", "rank 0 and on rank 1"});
  refused({{0}, {2}}, "1F1B", {"got stage 2 on rank 1", "without gaps"});
  refused({{1}, {0}}, "1F1B", {"expected stage 0 on rank 0", "got it on rank 1"});
  refused({{0, 2}, {1, 3}}, "ZBVZeroBubble", {"expected stage 2 on rank 1"});
}

// Whoever receives first notices; nobody waits until the time is over.
TEST(PipelineBadInputProcs, RanksThatDisagreeOnMicrobatches) {
  for (const char* name : {"1F1B", "GPipe", "ZB-H1"})
    for (const int agreed : {0, 2}) {
      Problem problem = dense_problem(name, kBadRanks, 4, 12);
      for (const Backend backend : {Backend::Local, Backend::Shm})
        testing::run_world(
            backend,
            kBadRanks,
            [&](const comm::Group& world) {
              SCOPED_TRACE(text(name, ", rank ", world.rank(), ", ", agreed));
              PipelineRank rank(problem, world);
              Batch batch = rank.share(problem.batch);
              for (int i = 0; i < agreed; ++i)
                rank.pipeline().step(batch);
              batch.microbatches = world.rank() == 1 ? 12 : 4;
              std::string message;
              try {
                rank.pipeline().step(batch);
              } catch (const InvalidArgument& error) {
                message = error.what();
              } catch (const PeerError& error) {
                message = error.what();
              }
              EXPECT_TRUE(contains(message, "with as many microbatches"));
            },
            {.timeout = std::chrono::seconds(5)});
    }
}

// Whichever rank does something else, whatever they did before: the first message
// tells.
TEST(PipelineBadInputProcs, RanksThatCallDifferentThings) {
  const auto call = [](Pipeline& pipeline, const Batch& batch, StepCall what) {
    if (what == StepCall::Step)
      pipeline.step(batch);
    else if (what == StepCall::Evaluate)
      pipeline.evaluate(batch);
    else
      pipeline.forward_only(batch);
  };
  const std::pair<StepCall, StepCall> calls[] = {
      {StepCall::Step, StepCall::Evaluate},
      {StepCall::Evaluate, StepCall::Step},
      {StepCall::ForwardOnly, StepCall::Evaluate}};
  for (const char* name : {"1F1B", "GPipe"})
    for (const auto& [most, odd] : calls)
      for (int one = 0; one < kBadRanks; ++one)
        for (const int before : {0, 3}) {
          Problem problem = dense_problem(name, kBadRanks, 12, 12);
          testing::run_world(
              Backend::Local,
              kBadRanks,
              [&](const comm::Group& world) {
                SCOPED_TRACE(
                    text(name, ", rank ", world.rank(), ", ", one, " ", to_text(odd)));
                PipelineRank rank(problem, world);
                Batch batch = rank.share(problem.batch);
                batch.microbatches = before;  // small channels, to be left
                if (before > 0)
                  rank.pipeline().step(batch);
                batch.microbatches = 12;
                std::string message;
                try {
                  call(rank.pipeline(), batch, world.rank() == one ? odd : most);
                } catch (const InvalidArgument& error) {
                  message = error.what();
                } catch (const PeerError& error) {
                  message = error.what();
                }
                EXPECT_TRUE(contains(message, to_text(most)));
                EXPECT_TRUE(contains(message, to_text(odd)));
                EXPECT_TRUE(contains(message, text("rank ", one)));
                EXPECT_TRUE(contains(message, "must make the same calls"));
              },
              {.timeout = std::chrono::seconds(5)});
        }
}

}  // namespace
}  // namespace trireme::pipe
