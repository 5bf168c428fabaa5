// Nothing is left behind: neither by steps, nor by evaluations, nor by failures.
#include <fstream>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../pipe/models.h"
#include "pipeline_case.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/memory/caching_allocator.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using testing::Backend;

// Counts the bytes of all tensors, and has to be there before the first of them.
const bool installed = [] {
  memory::install_caching_allocator();
  return true;
}();

/// Of this process.
int64_t live_bytes() {
  return memory::stats().live_bytes;
}

/// Of the segments that this process has mapped, what lies in memory.
int64_t shared_kib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (word == "RssShmem:") {
      int64_t kib = 0;
      status >> kib;
      return kib;
    }
  ADD_FAILURE() << "no RssShmem in /proc/self/status";
  return 0;
}

/// In processes, where every rank can count for itself.
void returns_to_where_it_was(
    const Problem& problem, int ranks, const std::function<void(PipelineRank&)>& once) {
  ASSERT_TRUE(installed);
  testing::run_world(Backend::Shm, ranks, [&](const comm::Group& world) {
    SCOPED_TRACE(text(problem.options.schedule, ", rank ", world.rank()));
    PipelineRank rank(problem, world);
    // What is made once and stays: gradients, and the gradient of the loss.
    for (int i = 0; i < 2; ++i)
      once(rank);
    const int64_t start = live_bytes();
    for (int i = 0; i < 3; ++i) {
      once(rank);
      EXPECT_EQ(live_bytes(), start);
    }
  });
}

TEST(PipelineMemoryProcs, StepsLeaveNothing) {
  for (const auto& [name, stages] :
       {std::pair{"GPipe", 2},
        {"1F1B", 2},
        {"Interleaved1F1B", 4},
        {"InterleavedZeroBubble", 4},
        {"ZBVZeroBubble", 4},
        {"DualPipeV", 4}}) {
    const Problem problem = dense_problem(name, stages, 4);
    returns_to_where_it_was(problem, 2, [&](PipelineRank& rank) {
      rank.step();
      rank.share({});
    });
    returns_to_where_it_was(problem, 2, [&](PipelineRank& rank) {
      rank.pipeline().evaluate(rank.share(problem.batch));
      rank.share({});
    });
    returns_to_where_it_was(problem, 2, [&](PipelineRank& rank) {
      rank.pipeline().forward_only(rank.share(problem.batch));
      rank.share({});
    });
  }
}

TEST(PipelineMemoryProcs, FailuresLeaveNothing) {
  using sched::ActionKind;
  const auto fused = {ActionKind::Forward, ActionKind::Backward};
  const auto split = {
      ActionKind::Forward, ActionKind::InputGrad, ActionKind::WeightGrad};
  for (const auto& [name, stages, kinds] :
       {std::tuple{"1F1B", 2, fused},
        {"InterleavedZeroBubble", 4, split},
        {"DualPipeV", 4, fused}})
    for (const ActionKind kind : kinds) {
      const Problem problem = dense_problem(name, stages, 4);
      testing::run_world(Backend::Shm, 2, [&](const comm::Group& first_world) {
        SCOPED_TRACE(text(name, ", rank ", first_world.rank()));
        comm::Group world = first_world;
        PipelineRank rank(problem, world);
        int countdown = -1;
        rank.pipeline().replace(kind, [&](ActionContext& context) {
          if (countdown-- == 0)
            throw std::runtime_error("trouble");
          context.run();
        });
        for (int i = 0; i < 2; ++i)
          rank.step();
        rank.share({});
        const int64_t start = live_bytes();
        for (const int after : {0, 3, 1}) {
          countdown = world.rank() == 0 ? after : -1;
          rank.failing_step();
          rank.share({});
          EXPECT_EQ(live_bytes(), start) << "after " << after;
          world = world.renew();
          rank.pipeline().rejoin(world);
          countdown = -1;
          rank.step();
          rank.share({});
        }
      });
    }
}

// All threads share one count, so they meet before they look.
TEST(PipelineMemoryRanks, StepsLeaveNothing) {
  const Problem problem = dense_problem("ZBVZeroBubble", 4, 4);
  testing::run_world(Backend::Local, 2, [&](const comm::Group& world) {
    PipelineRank rank(problem, world);
    int64_t start = 0;
    for (int i = 0; i < 6; ++i) {
      rank.step();
      rank.share({});
      comm::barrier(world);
      const int64_t now = live_bytes();
      comm::barrier(world);
      if (i == 1)
        start = now;
      if (i > 1) {
        EXPECT_EQ(now, start) << "step " << i;
      }
    }
  });
}

// Blocks of the segment go back to their sender: the memory of many steps is that of
// few.
TEST(PipelineMemoryProcs, TheSegmentDoesNotGrow) {
  constexpr int64_t kSegmentWidth = 128;
  Problem problem = dense_problem("1F1B", 2, 4);
  problem.model = dense_model(2, kSegmentWidth);
  problem.batch =
      dense_batch(4 * 512, kSegmentWidth);  // 256 KiB a message, 2 MiB a step
  testing::run_world(Backend::Shm, 2, [&](const comm::Group& world) {
    PipelineRank rank(problem, world);
    for (int i = 0; i < 3; ++i)
      rank.step();
    const int64_t start = shared_kib();
    for (int i = 3; i < 50; ++i)
      rank.step();
    EXPECT_LT(shared_kib() - start, 1024);
  });
}

}  // namespace
}  // namespace trireme::pipe
