// Parameters that a backward does not reach: everywhere, on some ranks, now and then.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../dp/models.h"
#include "trireme/core/error.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::contains;
using testing::message_of;
using testing::run_world;

using Path = std::vector<int>;

at::Tensor unused_input(int rank) {
  return whole_numbers({2, 4}, static_cast<uint64_t>(rank + 1));
}

/// A step of both: rank r goes through the blocks of paths[r].
void step_as_one(
    DataParallel<std::shared_ptr<Blocks>>& model,
    Blocks& whole,
    const comm::Group& group,
    const std::vector<Path>& paths) {
  drop_gradients(*model.module());
  drop_gradients(whole);
  const auto at = static_cast<size_t>(group.rank());
  model(unused_input(group.rank()), paths[at]).sum().backward();
  for (int rank = 0; rank < group.size(); ++rank)
    (whole.forward(unused_input(rank), paths[static_cast<size_t>(rank)]).sum() /
     group.size())
        .backward();
  expect_same_gradients(*model.module(), whole);
}

TEST(DataParallelUnusedRanks, SetsThatChangeFromStepToStep) {
  const std::vector<std::vector<Path>> steps = {
      {{0, 1}, {0, 1}},     // 2 and 3 unused everywhere
      {{0, 1}, {0, 2}},     // another on each rank
      {{0, 1, 2, 3}, {3}},  // all on one
      {{0, 1, 2, 3}, {0, 1, 2, 3}},
      {{2}, {2}},
      {{3}, {0}},
      {{1}, {1, 2}},
  };
  for (const Backend backend : {Backend::Local, Backend::Shm})
    for (const size_t bytes : {size_t{1}, size_t{200}, size_t{1} << 20})
      run_world(backend, 2, [&](const comm::Group& group) {
        const auto net = std::make_shared<Blocks>(4);
        const auto whole = copy_of(*net);
        DataParallel model(net, group, {.bucket_bytes = bytes, .find_unused = true});
        for (size_t k = 0; k < 2 * steps.size(); ++k) {
          SCOPED_TRACE(text("step ", k, " of rank ", group.rank(), ", bytes ", bytes));
          step_as_one(model, *whole, group, steps[k % steps.size()]);
        }
      });
}

TEST(DataParallelUnusedRanks, ARankThatUsesNothingNewTakesPart) {
  run_world(Backend::Local, 4, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(3);
    const auto whole = copy_of(*net);
    DataParallel model(net, group, {.bucket_bytes = 1, .find_unused = true});
    step_as_one(model, *whole, group, {{0}, {1}, {2}, {0, 1, 2}});
    EXPECT_EQ(
        model.replica().reducer().outcome().used,
        (std::vector<int64_t>{2, 2, 2, 2, 2, 2}));
    step_as_one(model, *whole, group, {{0}, {1}, {0, 1}, {0, 1}});
    EXPECT_EQ(
        model.replica().reducer().outcome().used,
        (std::vector<int64_t>{3, 3, 3, 3, 0, 0}));
  });
}

TEST(DataParallelUnusedRanks, BucketsThatNobodyReachesAreLeftOut) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(4);
    DataParallel model(
        net, group, {.bucket_bytes = 1, .find_unused = true, .rebuild = false});
    model(unused_input(0), Path{0, 3}).sum().backward();
    int skipped = 0;
    for (const BucketTime& time : model.replica().stats().buckets)
      skipped += time.skipped;
    EXPECT_EQ(skipped, 4);  // w1, b1, w2, b2
    EXPECT_FALSE(net->weight(1).grad().defined());
  });
}

TEST(DataParallelUnusedRanks, MissingWithoutTheOptionIsNamed) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 2, [](const comm::Group& group) {
      const auto net = std::make_shared<Blocks>(3);
      DataParallel model(net, group, {.bucket_bytes = 1});
      model(unused_input(0)).sum().backward();
      const Path path = group.rank() == 1 ? Path{0, 2} : Path{0, 1, 2};
      const at::Tensor loss = model(unused_input(0), path).sum();
      if (group.rank() == 1) {
        const std::string message =
            message_of<InvalidArgument>([&] { loss.backward(); });
        EXPECT_TRUE(contains(message, "on rank 1 for w1, b1; set find_unused"));
      } else {
        const std::string message = message_of<PeerError>([&] { loss.backward(); });
        EXPECT_TRUE(contains(message, "w1, b1"));
      }
      EXPECT_TRUE(contains(
          message_of<InvalidArgument>([&] { model(unused_input(0)); }),
          "replace_group"));
    });
}

// The loss needs a parameter that no output leads to.
TEST(DataParallelUnusedRanks, UsedOutsideOfForward) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(2);
    const auto whole = copy_of(*net);
    DataParallel model(net, group);
    const auto loss = [](const at::Tensor& y, const Blocks& its) {
      return y.sum() + (its.weight(1) * 3).sum() + its.bias(1).sum();
    };
    loss(model(unused_input(group.rank()), Path{0}), *net).backward();
    for (int rank = 0; rank < 2; ++rank)
      (loss(whole->forward(unused_input(rank), Path{0}), *whole) / 2).backward();
    expect_same_gradients(*net, *whole);
  });
}

// Undefined gradients reach the node of a parameter without being an error.
TEST(DataParallelUnusedRanks, AParameterThatNobodyNeedsKeepsItsOldGradient) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(2);
    DataParallel model(net, group, {.find_unused = true});
    model(unused_input(0)).sum().backward();
    const at::Tensor before = net->weight(1).grad().clone();
    model(unused_input(0), Path{0})
        .sum()
        .backward();  // adds to the gradients of block 0 only
    EXPECT_TRUE(testing::same(net->weight(1).grad(), before));
  });
}

}  // namespace
}  // namespace trireme::dp
