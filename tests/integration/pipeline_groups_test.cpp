// Pipelines on parts of a world: how their messages name ranks.
#include <chrono>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pipeline_case.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using testing::Backend;
using testing::contains;

/// Two pipelines of two ranks each: those of the second are 2 and 3 in the world.
void in_second_half(
    const std::function<void(const comm::Group& half)>& body,
    std::chrono::milliseconds timeout = std::chrono::seconds(10)) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    testing::run_world(
        backend,
        4,
        [&](const comm::Group& world) {
          const comm::Group half = world.split(world.rank() / 2);
          if (world.rank() >= 2)
            body(half);
        },
        {.timeout = timeout});
}

TEST(PipelineGroupsProcs, AFailureNamesBothRanks) {
  const Problem problem = dense_problem("1F1B", 2, 4);
  in_second_half([&](const comm::Group& half) {
    PipelineRank rank(problem, half);
    if (half.rank() == 1)
      rank.pipeline().replace(sched::ActionKind::Forward, [](ActionContext&) {
        throw std::runtime_error("trouble");
      });
    const FailedStep failed = rank.failing_step();
    EXPECT_EQ(failed.rank, 3);
    EXPECT_EQ(failed.here, half.rank() == 1);
    EXPECT_TRUE(failed.text.starts_with(
        failed.here ? "trouble"
                    : "[pipe] rank 1 (world rank 3) failed at 1F0 (stage 1, microbatch "
                      "0): trouble"))
        << failed.text;
  });
}

TEST(PipelineGroupsProcs, WrongInputNamesBothRanks) {
  const Problem problem = dense_problem("1F1B", 2, 4);
  in_second_half([&](const comm::Group& half) {
    PipelineRank rank(problem, half);
    Batch batch = rank.share(problem.batch);
    if (half.rank() == 1)
      batch.targets.clear();
    const auto step = [&] { rank.pipeline().step(batch); };
    const std::string message = half.rank() == 1
                                    ? testing::message_of<InvalidArgument>(step)
                                    : testing::message_of<PeerError>(step);
    EXPECT_TRUE(contains(message, "expected targets on rank 1 (world rank 3)"));
    EXPECT_EQ(message.find("[comm]"), std::string::npos) << message;
    if (half.rank() == 0) {
      EXPECT_TRUE(contains(message, "[pipe] rank 1 (world rank 3) failed: [pipe] "));
    }
  });
}

TEST(PipelineGroupsRanks, WhoWaitsForWhom) {
  const Problem problem = dense_problem("1F1B", 2, 4);
  testing::run_world(
      Backend::Local,
      4,
      [&](const comm::Group& world) {
        const comm::Group half = world.split(world.rank() / 2);
        if (world.rank() < 2)
          return;
        Problem mine = problem;
        if (half.rank() == 1)
          mine.loss = [&](const Tensors& out, const Tensors& target) {
            std::this_thread::sleep_for(std::chrono::milliseconds(900));
            return problem.loss(out, target);
          };
        PipelineRank rank(mine, half);
        if (half.rank() == 1) {
          EXPECT_THROW(rank.step(), Error);
          return;
        }
        EXPECT_TRUE(contains(
            testing::message_of<TimeoutError>([&] { rank.step(); }),
            "rank 0 (world rank 2) waited at 0RECV_B0 for 1SEND_B0 of rank 1 (world "
            "rank 3) (stage 0, microbatch 0)"));
      },
      {.timeout = std::chrono::milliseconds(300)});
}

TEST(PipelineGroupsProcs, DifferentCallsNameBothRanks) {
  const Problem problem = dense_problem("1F1B", 2, 4);
  in_second_half([&](const comm::Group& half) {
    PipelineRank rank(problem, half);
    const Batch batch = rank.share(problem.batch);
    std::string message;
    try {
      if (half.rank() == 1)
        rank.pipeline().step(batch);
      else
        rank.pipeline().evaluate(batch);
    } catch (const Error& error) {
      message = error.what();
    }
    EXPECT_TRUE(contains(
        message,
        "expected rank 0 (world rank 2) to call step() with 4 microbatches, as rank 1 "
        "(world rank 3) does, got evaluate() with 4 microbatches"));
  });
}

}  // namespace
}  // namespace trireme::pipe
