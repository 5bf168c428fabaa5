#include "trireme/dp/replica.h"

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

at::Tensor replica_input() {
  return whole_numbers({2, 4}, 1);
}

TEST(ReplicaRanks, ValuesComeFromRankZero) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 2, [](const comm::Group& group) {
      const auto held = std::make_shared<Blocks>(2, 4, at::kDouble, group.rank());
      Blocks& net = *held;
      net.register_buffer("buffer", at::full({2}, group.rank()));
      const Replica replica(net, group);
      expect_same_values(net, Blocks(2, 4, at::kDouble, 0));
      EXPECT_EQ(net.buffers()[0][0].item<double>(), 0);
    });
}

TEST(ReplicaRanks, WithoutTheFirstSyncEverythingStays) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto held = std::make_shared<Blocks>(2, 4, at::kDouble, group.rank());
    Blocks& net = *held;
    const Replica replica(net, group, {.init_sync = false});
    expect_same_values(net, Blocks(2, 4, at::kDouble, group.rank()));
    EXPECT_THROW(replica.check_replicas(), Error);
  });
}

TEST(ReplicaRanks, StateFromAnyRank) {
  run_world(Backend::Local, 3, [](const comm::Group& group) {
    const auto held = std::make_shared<Blocks>(1);
    Blocks& net = *held;
    Replica replica(net, group);
    for (int source = 0; source < 3; ++source) {
      net.weight(0).data().fill_(group.rank() + 10);
      replica.broadcast_state(source);
      EXPECT_EQ(net.weight(0)[0][0].item<double>(), source + 10);
    }
  });
}

TEST(ReplicaRanks, LimitsOfBuckets) {
  run_world(Backend::Local, 1, [](const comm::Group& group) {
    const auto held = std::make_shared<Blocks>(2);
    Blocks& net = *held;
    EXPECT_THROW(Replica(net, group, {.bucket_bytes = 0}), InvalidArgument);
    EXPECT_THROW(Replica(net, group, {.bucket_bytes_list = {4, 0}}), InvalidArgument);
    const Replica replica(net, group, {.bucket_bytes_list = {1, 1000}});
    EXPECT_EQ(replica.reducer().gradients().buckets(), 2);
  });
}

TEST(ReplicaRanks, OptionsThatDiffer) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto held = std::make_shared<Blocks>(1);
    Blocks& net = *held;
    const bool odd = group.rank() == 1;
    const auto hook =
        make_hook("squeeze", [](GradBucket& b, const auto& next) { next(b); });
    DataParallelOptions hooked;
    hooked.hooks.push_back(hook);
    DataParallelOptions ignoring;
    ignoring.ignore.emplace_back("w0");
    const std::vector<std::pair<DataParallelOptions, std::string>> cases = {
        {{.bucket_bytes = 7}, "bucket limit 7"},
        {{.reduction = Reduction::Sum}, "reduction 1"},
        {{.static_graph = true}, "static_graph 1"},
        {{.rebuild = false}, "rebuild 0"},
        {{.buffers = {.mode = BufferMode::Off}}, "buffers 0"},
        {{.gradient_dtype = at::kFloat}, "gradient_dtype Float"},
        {{.check_replicas_every = 3}, "check_replicas_every 3"},
        {hooked, "hook squeeze"},
        {ignoring, "1 parameters"}};
    for (const auto& [options, part] : cases) {
      const std::string message = message_of<InvalidArgument>(
          [&] { Replica(net, group, odd ? options : DataParallelOptions{}); });
      EXPECT_TRUE(contains(message, "rank 1: "));
      EXPECT_TRUE(contains(message, part));
    }
  });
}

TEST(ReplicaRanks, DataThatWasReplacedIsNoticed) {
  run_world(Backend::Local, 1, [](const comm::Group& group) {
    const auto held = std::make_shared<Blocks>(1);
    Blocks& net = *held;
    Replica replica(net, group);
    net.to(at::kFloat);
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>(
            [&] { static_cast<void>(replica.before_forward()); }),
        "got other data in w0"));
    net.eval();
    static_cast<void>(replica.before_forward());
  });
}

TEST(ReplicaRanks, HooksAreGoneWithIt) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto held = std::make_shared<Blocks>(1);
    Blocks& net = *held;
    for (int k = 0; k < 3; ++k) {
      const Replica replica(net, group);
      net.forward(replica_input()).sum().backward();
      EXPECT_EQ(replica.reducer().rounds(), 1);
    }
    if (group.rank() == 0)
      net.forward(replica_input()).sum().backward();  // nobody waits for the other
  });
}

TEST(ReplicaRanks, ValuesAreComparedNowAndThen) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto held = std::make_shared<Blocks>(1);
    Blocks& net = *held;
    Replica replica(net, group, {.check_replicas_every = 2});
    if (group.rank() == 1)
      add_to(net.bias(0), 1);
    for (int step = 0; step < 2; ++step) {
      static_cast<void>(replica.before_forward());
      net.forward(replica_input()).sum().backward();
    }
    EXPECT_TRUE(contains(
        message_of<Error>([&] { static_cast<void>(replica.before_forward()); }),
        "values of b0"));
  });
}

/// A buffer and a counter of each rank, after a sync of this mode from rank 1.
void expect_buffers_after(BufferOptions options, double value, int64_t count) {
  options.source = 1;
  testing::run_world(testing::Backend::Local, 2, [&](const comm::Group& group) {
    const auto held = std::make_shared<Blocks>(1);
    const at::Tensor mean = held->register_buffer("mean", at::zeros({3}));
    const at::Tensor number = held->register_buffer("number", at::zeros({}, at::kLong));
    Replica replica(*held, group, {.buffers = options});
    mean.fill_(group.rank() + 1.0);
    number.fill_(10 + group.rank());
    replica.sync_buffers();
    if (options.mode == BufferMode::Off) {
      EXPECT_EQ(mean[0].item<double>(), group.rank() + 1.0);
      return;
    }
    EXPECT_TRUE(same(mean, at::full({3}, value)));
    EXPECT_EQ(number.item<int64_t>(), count);
  });
}

TEST(ReplicaRanks, BuffersInEveryMode) {
  expect_buffers_after({.mode = BufferMode::Off}, 0, 0);
  expect_buffers_after({.mode = BufferMode::Broadcast}, 2, 11);
  expect_buffers_after({.mode = BufferMode::Average}, 1.5, 10);
  expect_buffers_after(
      {.mode = BufferMode::Hook,
       .hook =
           [](const comm::Group&, const NamedBuffers& buffers) {
             EXPECT_EQ(buffers[1].first, "number");
             buffers[0].second.fill_(7);
             buffers[1].second.fill_(8);
           }},
      7,
      8);
}

// Not only what is trained and reduced by every backward.
TEST(ReplicaRanks, FrozenAndDelayedParametersAreComparedToo) {
  for (const bool frozen : {false, true})
    run_world(Backend::Local, 2, [frozen](const comm::Group& group) {
      const auto held = std::make_shared<Blocks>(2);
      held->weight(1).set_requires_grad(!frozen);
      DataParallelOptions options;
      if (!frozen)
        options.delay = {"w1"};
      const Replica replica(*held, group, options);
      replica.check_replicas();
      if (group.rank() == 1)
        add_to(held->weight(1), 1e-9);
      EXPECT_TRUE(contains(
          message_of<Error>([&] { replica.check_replicas(); }), "values of w1"));
    });
}

TEST(ReplicaRanks, BuffersAreComparedWhereTheyMustBeEqual) {
  for (const bool after_forward : {false, true})
    run_world(Backend::Local, 2, [after_forward](const comm::Group& group) {
      const auto held = std::make_shared<Blocks>(1);
      const at::Tensor count = held->register_buffer("count", at::zeros({2}));
      Replica replica(
          *held,
          group,
          {.buffers = {.after_forward = after_forward}, .check_replicas_every = 1});
      const auto step = [&] {
        static_cast<void>(replica.before_forward());
        count.add_(group.rank() + 1);
        replica.watch(held->forward(replica_input())).sum().backward();
      };
      step();
      step();
      count.add_(group.rank());
      if (after_forward)
        EXPECT_TRUE(contains(message_of<Error>(step), "values of count"));
      else
        step();  // each has its own until the next forward
    });
}

TEST(ReplicaRanks, ParametersThatAreUnfrozenLaterAreRefused) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto held = std::make_shared<Blocks>(2);
    held->weight(1).set_requires_grad(false);
    Replica replica(*held, group);
    static_cast<void>(replica.before_forward());
    held->weight(1).set_requires_grad(true);
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>(
            [&] { static_cast<void>(replica.before_forward()); }),
        "got w1 that need a gradient now"));
  });
}

}  // namespace
}  // namespace trireme::dp
