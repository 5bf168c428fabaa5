#include "trireme/dp/reducer.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "models.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::contains;
using testing::message_of;
using testing::run_world;
using testing::same;

std::vector<Parameter> parameters_of(const Blocks& net) {
  std::vector<Parameter> parameters;
  for (const auto& parameter : net.named_parameters())
    parameters.push_back({parameter.key(), parameter.value()});
  return parameters;
}

at::Tensor reducer_input(int rank = 0) {
  return whole_numbers({2, 4}, static_cast<uint64_t>(rank + 1));
}

TEST(ReducerRanks, EveryBackwardIsARound) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const Blocks net(2);
    const auto whole = copy_of(net);
    Reducer reducer(parameters_of(net), group, {.bucket_bytes = 1});
    EXPECT_EQ(reducer.gradients().buckets(), 4);
    for (int step = 0; step < 3; ++step) {
      net.forward(reducer_input(group.rank())).sum().backward();
      EXPECT_FALSE(reducer.is_open());
      EXPECT_EQ(reducer.rounds(), step + 1);
    }
    for (int rank = 0; rank < 2; ++rank)
      (3 * whole->forward(reducer_input(rank)).sum() / 2).backward();
    expect_same_gradients(net, *whole);
  });
}

TEST(ReducerRanks, Pauses) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const Blocks net(1);
    Reducer reducer(parameters_of(net), group);
    reducer.pause();
    reducer.pause();
    reducer.resume();
    EXPECT_TRUE(reducer.is_paused());
    net.forward(reducer_input(group.rank())).sum().backward();
    EXPECT_EQ(reducer.rounds(), 0);
    reducer.resume();
    net.forward(reducer_input(group.rank())).sum().backward();
    EXPECT_EQ(reducer.rounds(), 1);
  });
}

TEST(ReducerRanks, RoundsByHand) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const Blocks net(2);
    const auto whole = copy_of(net);
    Reducer reducer(parameters_of(net), group, {.bucket_bytes = 1}, Rounds::ByHand);
    net.forward(reducer_input(group.rank()))
        .sum()
        .backward();  // adds up, as in a pause
    EXPECT_EQ(reducer.rounds(), 0);
    reducer.open();
    EXPECT_THROW(reducer.open(), InvalidArgument);
    net.forward(reducer_input(group.rank() + 2), {0}).sum().backward();
    reducer.close();
    reducer.finish();
    for (int rank = 0; rank < 2; ++rank) {
      (whole->forward(reducer_input(rank)).sum() / 2).backward();
      (whole->forward(reducer_input(rank + 2), {0}).sum() / 2).backward();
    }
    expect_same_gradients(net, *whole);
  });
}

TEST(ReducerRanks, GradientsThatAreCompleteOnlyAtTheEnd) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const Blocks net(2);
    Reducer reducer(parameters_of(net), group, {.bucket_bytes = 1}, Rounds::ByHand);
    reducer.leave_to_finish({net.weight(1)});
    const auto& buckets = reducer.gradients().layout().buckets;
    EXPECT_EQ(buckets.back().parameters, (std::vector<int>{2}));
    reducer.open();
    net.forward(reducer_input()).sum().backward();
    reducer.close();
    net.weight(1).grad().fill_(group.rank() + 1);
    reducer.finish();
    EXPECT_TRUE(same(net.weight(1).grad(), at::full({4, 4}, 1.5, at::kDouble)));
  });
}

TEST(ReducerRanks, ShadowsTakePartWithZeros) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    for (const bool by_active : {false, true}) {
      const Blocks net(2);
      const auto own = copy_of(net);
      Reducer reducer(parameters_of(net), group, {.bucket_bytes = 1});
      reducer.set_join({.divide_by_active = by_active});
      if (group.rank() == 0) {
        net.forward(reducer_input()).sum().backward();
        (own->forward(reducer_input()).sum() / (by_active ? 1 : 2)).backward();
        expect_same_gradients(net, *own);
        EXPECT_EQ(reducer.outcome().active, (std::vector<int64_t>{1, 0}));
      } else {
        EXPECT_TRUE(reducer.shadow());
        EXPECT_FALSE(net.weight(0).grad().defined());
      }
      EXPECT_FALSE(reducer.shadow());  // nobody has inputs any more
      EXPECT_FALSE(reducer.is_open());
      EXPECT_EQ(reducer.rounds(), 1);
    }
  });
}

TEST(ReducerRanks, WhatCannotBeReduced) {
  run_world(Backend::Local, 1, [](const comm::Group& group) {
    const at::Tensor leaf = at::ones({2}).requires_grad_();
    EXPECT_THROW(Reducer({{"made", leaf * 2}}, group), InvalidArgument);
    Reducer reducer({{"leaf", leaf}}, group);
    EXPECT_THROW(reducer.set_weight(2), InvalidArgument);
    EXPECT_THROW(Reducer({{"leaf", leaf}}, group), InvalidArgument);
    EXPECT_THROW(Reducer({}, group, {.bucket_bytes = 0}), InvalidArgument);
  });
}

TEST(ReducerRanks, ARoundThatFailedStaysOpenUntilTheGroupIsReplaced) {
  run_world(Backend::Local, 1, [](const comm::Group& group) {
    const Blocks net(2);
    Reducer reducer(parameters_of(net), group, {.bucket_bytes = 1});
    const at::Tensor one = net.forward(reducer_input(), {1}).sum();
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { one.backward(); }), "on rank 0 for w0, b0;"));
    EXPECT_TRUE(reducer.is_open());
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>(
            [&] { net.forward(reducer_input()).sum().backward(); }),
        "failed backward has left open"));
    reducer.replace_group(group);
    net.forward(reducer_input()).sum().backward();
    EXPECT_EQ(reducer.rounds(), 1);
  });
}

TEST(ReducerRanks, ManyRoundsWithFewRebuilds) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const Blocks net(6);
    Reducer reducer(parameters_of(net), group, {.bucket_bytes = 150});
    // Another order every time: rebuilds get rarer and rarer.
    std::vector<int> path = {0, 1, 2, 3, 4, 5};
    for (int step = 0; step < 40; ++step) {
      std::rotate(path.begin(), path.begin() + 1, path.end());
      drop_gradients(net);
      net.forward(reducer_input(), path).sum().backward();
    }
    EXPECT_GE(reducer.rebuilds(), 2);
    EXPECT_LE(reducer.rebuilds(), 8);
  });
}

}  // namespace
}  // namespace trireme::dp
