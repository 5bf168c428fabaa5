// Gradients that add up on their rank before they are reduced.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "../dp/models.h"
#include "trireme/core/error.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::run_world;
using testing::same;

at::Tensor input(int step, int rank = 0) {
  return whole_numbers({2, 4}, static_cast<uint64_t>(10 * step + rank + 1));
}

/// What all ranks together would have for these steps: the mean over the ranks.
void add_whole(Blocks& whole, const comm::Group& group, int step) {
  for (int rank = 0; rank < group.size(); ++rank)
    (whole.forward(input(step, rank)).sum() / group.size()).backward();
}

void every_other_step(const comm::Group& group, const DataParallelOptions& options) {
  const auto net = std::make_shared<Blocks>(2);
  const auto whole = copy_of(*net);
  const auto own = copy_of(*net);
  DataParallel model(net, group, options);
  for (int step = 0; step < 6; ++step) {
    SCOPED_TRACE(text("step ", step, " of rank ", group.rank()));
    add_whole(*whole, group, step);
    if (step % 2 == 0) {
      const auto guard = model.no_sync();
      own->forward(input(step, group.rank())).sum().backward();
      model(input(step, group.rank())).sum().backward();
      expect_same_gradients(*net, *own);
      continue;
    }
    model(input(step, group.rank())).sum().backward();
    expect_same_gradients(*net, *whole);
    for (const auto& each : {net, whole, own})
      drop_gradients(*each);
  }
  EXPECT_EQ(model.replica().reducer().rounds(), 3);
}

TEST(DataParallelNoSyncRanks, EveryOtherStep) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 2, [](const comm::Group& group) {
      every_other_step(group, {});
      every_other_step(group, {.bucket_bytes = 1});
      every_other_step(group, {.find_unused = true});
      every_other_step(group, {.bucket_bytes = 1, .static_graph = true});
    });
}

TEST(DataParallelNoSyncRanks, ScopesNestAndCountForBackwards) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(2);
    const auto whole = copy_of(*net);
    DataParallel model(net, group);
    at::Tensor made_inside;
    {
      const auto outer = model.no_sync();
      {
        const auto inner = model.no_sync();
        model(input(0, group.rank())).sum().backward();
      }
      model(input(1, group.rank())).sum().backward();
      EXPECT_EQ(model.replica().reducer().rounds(), 0);
      made_inside = model(input(2, group.rank())).sum();
    }
    made_inside.backward();  // outside: this is what counts
    for (int step = 0; step < 3; ++step)
      add_whole(*whole, group, step);
    expect_same_gradients(*net, *whole);
    EXPECT_EQ(model.replica().reducer().rounds(), 1);
  });
}

TEST(DataParallelNoSyncRanks, NoGradInsideIsHarmless) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(2);
    const auto whole = copy_of(*net);
    DataParallel model(net, group, {.find_unused = true});
    {
      const auto guard = model.no_sync();
      const c10::AutoGradMode no_grad(false);
      EXPECT_FALSE(model(input(0)).requires_grad());
    }
    model(input(1, group.rank())).sum().backward();
    add_whole(*whole, group, 1);
    expect_same_gradients(*net, *whole);
  });
}

// A parameter that only a step without reduction has used counts as used, and its
// bucket is not left out.
TEST(DataParallelNoSyncRanks, OtherBlocksInEachStepAndOnEachRank) {
  for (const size_t bytes : {size_t{1}, size_t{1} << 20})
    run_world(Backend::Local, 2, [bytes](const comm::Group& group) {
      const auto net = std::make_shared<Blocks>(6);
      const auto whole = copy_of(*net);
      DataParallel model(net, group, {.bucket_bytes = bytes, .find_unused = true});
      // By rank and step; block 5 is used by nobody.
      const std::vector<int> paths[2][3] = {{{0}, {1}, {2}}, {{3}, {4}, {2}}};
      for (int round = 0; round < 3; ++round) {
        SCOPED_TRACE(text("round ", round, " of rank ", group.rank()));
        for (int step = 0; step < 3; ++step) {
          for (int rank = 0; rank < 2; ++rank)
            (whole->forward(input(step, rank), paths[rank][step]).sum() / 2).backward();
          if (step < 2) {
            const auto guard = model.no_sync();
            model(input(step, group.rank()), paths[group.rank()][step])
                .sum()
                .backward();
          } else {
            model(input(step, group.rank()), paths[group.rank()][step])
                .sum()
                .backward();
          }
        }
        expect_same_gradients(*net, *whole);
        drop_gradients(*net);
        drop_gradients(*whole);
      }
    });
}

// Without find_unused: what an earlier step of the window has used is not missed.
TEST(DataParallelNoSyncRanks, EarlierStepsOfTheWindowAreEnough) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(2);
    DataParallel model(net, group);
    {
      const auto guard = model.no_sync();
      model(input(0), std::vector<int>{0}).sum().backward();
    }
    model(input(1), std::vector<int>{1}).sum().backward();
    for (const at::Tensor& parameter : net->parameters())
      EXPECT_TRUE(parameter.grad().defined());
    const std::string message = testing::message_of<Error>(
        [&] { model(input(1), std::vector<int>{1}).sum().backward(); });
    EXPECT_TRUE(testing::contains(message, "w0") || testing::contains(message, "rank"));
  });
}

TEST(DataParallelNoSyncRanks, RunningTheModuleByItselfIsReducedToo) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(2);
    const auto whole = copy_of(*net);
    const DataParallel model(net, group);
    net->forward(input(0, group.rank())).sum().backward();
    add_whole(*whole, group, 0);
    expect_same_gradients(*net, *whole);
  });
}

}  // namespace
}  // namespace trireme::dp
