#include "trireme/dp/bucket_comm.h"

#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/dp/riders.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::contains;
using testing::message_of;
using testing::run_world;
using testing::same;

/// Two buckets of one parameter each, with whatever rides on them.
struct Two {
  Two(const comm::Group& group,
      const RiderPlan& riders,
      DataParallelOptions made_with = {})
      : parameters{{"a", at::zeros({3})}, {"b", at::zeros({2})}},
        options(std::move(made_with)),
        flat(
            lay_out(
                std::vector<ParameterSize>{{.elements = 3}, {.elements = 2}},
                {{0}, {1}},
                riders.room()),
            parameters,
            group),
        comm(group, parameters, options, riders) {
    comm.use(flat);
  }
  void fill(double a, double b) const {
    flat.view(0).fill_(a);
    flat.view(1).fill_(b);
  }
  std::vector<Parameter> parameters;
  DataParallelOptions options;
  FlatGradients flat;
  BucketComm comm;
};

DataParallelOptions one_hook(const std::shared_ptr<CommHook>& hook) {
  DataParallelOptions options;
  options.hooks = {hook};
  return options;
}

TEST(BucketCommRanks, OnTheThreadAndAtOnce) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 2, [](const comm::Group& group) {
      for (const Reduction reduction : {Reduction::Mean, Reduction::Sum}) {
        Two two(group, {}, {.reduction = reduction, .norm = true});
        two.comm.begin({});
        two.fill(group.rank() + 1, 4 * group.rank());
        two.comm.launch(0);
        two.comm.run_now(1);
        two.comm.finish();
        const float by = reduction == Reduction::Mean ? 2 : 1;
        EXPECT_TRUE(same(two.flat.view(0), at::full({3}, 3 / by)));
        EXPECT_TRUE(same(two.flat.view(1), at::full({2}, 4 / by)));
        EXPECT_NEAR(two.comm.outcome().squares[0], 3 * 9 / (by * by), 1e-4);
        EXPECT_NEAR(two.comm.outcome().squares[1], 2 * 16 / (by * by), 1e-4);
        EXPECT_LE(two.comm.times()[0].start_ns, two.comm.times()[0].end_ns);
        EXPECT_EQ(two.comm.first_dense(), 0);
        EXPECT_EQ(two.comm.last_dense(), 1);
      }
    });
}

TEST(BucketCommRanks, WhatRidesOnTheFirstAndOnTheLast) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const bool first = group.rank() == 0;
    for (const Reduction reduction :
         {Reduction::Mean, Reduction::Sum, Reduction::WeightedMean}) {
      Two two(
          group,
          {.active = 2,
           .weight = kCountElements,
           .reached = 2,
           .used = 1,
           .ends = kEndFlags},
          {.reduction = reduction, .find_unused = true});
      const int64_t weight = first ? 3 : 1;
      two.comm.begin({.weight = weight});
      two.fill(4, 5);
      std::vector<uint8_t> flags = {first, !first};
      append_bits(flags, weight);
      flags.push_back(first);  // reached
      flags.push_back(0);
      flags.push_back(1);  // used
      two.comm.write_riders(0, flags);
      two.comm.launch(0);
      two.comm.write_riders(1, std::vector<uint8_t>{0, first, 0, first});
      two.comm.launch(1);
      two.comm.finish();
      const RoundOutcome& outcome = two.comm.outcome();
      EXPECT_EQ(outcome.active, (std::vector<int64_t>{1, 1}));
      EXPECT_EQ(outcome.total_weight, 4);
      EXPECT_EQ(outcome.reached, (std::vector<int64_t>{1, 0}));
      EXPECT_TRUE(outcome.rebuild);
      EXPECT_FALSE(outcome.unexpected);
      EXPECT_TRUE(outcome.meet);
      EXPECT_EQ(outcome.used, (std::vector<int64_t>{2, 0}));
      const float wanted = reduction == Reduction::Sum ? 8 : 4;
      EXPECT_TRUE(same(two.flat.view(0), at::full({3}, wanted)));
      // Nobody has reached the second one.
      EXPECT_TRUE(two.comm.times()[1].skipped);
      EXPECT_TRUE(same(two.flat.view(1), at::full({2}, 5.0F)));
    }
  });
}

TEST(BucketCommRanks, AMeanOverThoseWhoAreActive) {
  run_world(Backend::Local, 3, [](const comm::Group& group) {
    Two two(group, {.active = 3});
    two.comm.begin({.by_active = true});
    const bool active = group.rank() != 1;
    two.fill(active ? 4 : 0, active ? 6 : 0);
    std::vector<uint8_t> flags(3, 0);
    flags[static_cast<size_t>(group.rank())] = active;
    two.comm.write_riders(0, flags);
    two.comm.launch(0);
    two.comm.launch(1);
    two.comm.finish();
    EXPECT_TRUE(same(two.flat.view(0), at::full({3}, 4.0F)));
    EXPECT_TRUE(same(two.flat.view(1), at::full({2}, 6.0F)));
  });
}

TEST(BucketCommRanks, AnErrorNamesTheBucketAndStopsTheRest) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    int calls = 0;
    const auto trouble =
        make_hook("trouble", [&](GradBucket& bucket, const auto& next) {
          ++calls;
          if (group.rank() == 0)
            throw InvalidArgument("trouble");
          next(bucket);
        });
    Two two(group, {}, one_hook(trouble));
    two.comm.begin({});
    two.comm.launch(0);
    two.comm.launch(1);
    const std::string message = message_of<Error>([&] { two.comm.finish(); });
    EXPECT_TRUE(contains(message, "trouble"));
    EXPECT_TRUE(
        contains(message, "(while bucket 0 of 2 was reduced; its parameters: a)"));
    EXPECT_TRUE(two.comm.has_failed());
    EXPECT_EQ(calls, 1);
  });
}

// A gradient where no rank had expected one: what was left out is reduced after all.
TEST(BucketCommRanks, WhatWasSkippedByMistake) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    Two two(group, {.reached = 2, .used = 1, .ends = kEndFlags}, {.find_unused = true});
    two.comm.begin({});
    two.fill(4, 6 * group.rank());
    two.comm.write_riders(0, std::vector<uint8_t>{1, 0, 1});
    two.comm.launch(0);
    const auto found = static_cast<uint8_t>(group.rank());
    two.comm.write_riders(1, std::vector<uint8_t>{found, 0, found, 0});
    two.comm.launch(1);
    two.comm.finish();
    EXPECT_TRUE(two.comm.outcome().unexpected);
    EXPECT_FALSE(two.comm.times()[1].skipped);
    EXPECT_TRUE(same(two.flat.view(1), at::full({2}, 3.0F)));
    EXPECT_GT(two.comm.outcome().used[1], 0);
  });
}

// NaN times 0 is NaN, but a weight of 0 is none.
TEST(BucketCommRanks, WhatWeighsNothingIsNothing) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    Two two(group, {.weight = kCountElements}, {.reduction = Reduction::WeightedMean});
    const int64_t weight = group.rank() == 0 ? 2 : 0;
    two.comm.begin({.weight = weight});
    two.fill(group.rank() == 0 ? 3 : std::nan(""), group.rank() == 0 ? 5 : INFINITY);
    std::vector<uint8_t> flags;
    append_bits(flags, weight);
    two.comm.write_riders(0, flags);
    two.comm.launch(0);
    two.comm.launch(1);
    two.comm.finish();
    EXPECT_TRUE(same(two.flat.view(0), at::full({3}, 3.0F)));
    EXPECT_TRUE(same(two.flat.view(1), at::full({2}, 5.0F)));
  });
}

TEST(BucketCommRanks, FailTellsTheOthers) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    Two two(group, {});
    two.comm.begin({});
    if (group.rank() == 0)
      return two.comm.fail("no more");
    two.comm.launch(0);
    EXPECT_TRUE(contains(message_of<PeerError>([&] { two.comm.finish(); }), "no more"));
  });
}

}  // namespace
}  // namespace trireme::dp
