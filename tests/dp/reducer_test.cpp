#include "trireme/dp/reducer.h"

#include <algorithm>
#include <optional>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

#include "models.h"
#include "trireme/autograd/executor.h"
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

// A backward whose gradients come bit by bit, on a new thread each time: what a context
// of distributed autograd has on each worker. Here a bit is a block.
class BitByBit {
 public:
  BitByBit(const Blocks& net, const at::Tensor& input) {
    executor_.open({.store = &gradients});
    for (int block = 0; block < net.count(); ++block)
      executor_.add_roots(
          {torch::autograd::impl::gradient_edge(net.block(block, input).sum())});
  }
  void feed(uint32_t block) {
    on_a_thread([&] { executor_.feed(block, {at::ones({}, at::kDouble)}); });
  }
  void close() {
    on_a_thread([&] { executor_.close(); });
  }
  void drop(const std::string& why) {
    on_a_thread([&] { executor_.drop(why); });
  }

  autograd::GradientMap gradients;

 private:
  static void on_a_thread(const std::function<void()>& what) {
    std::exception_ptr error;
    std::thread([&] {
      try {
        what();
      } catch (...) {
        error = std::current_exception();
      }
    }).join();
    if (error)
      std::rethrow_exception(error);
  }
  autograd::Executor executor_;
};

TEST(ReducerRanks, PassesOfSeveralThreadsIntoStoresInTurn) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const Blocks net(2);
    Reducer reducer(parameters_of(net), group, {.bucket_bytes = 1});
    const auto whole = copy_of(net);
    for (int rank = 0; rank < 2; ++rank)
      for (int block = 0; block < 2; ++block)
        (whole->block(block, reducer_input(rank)).sum() / 2).backward();
    std::vector<std::unique_ptr<BitByBit>> passes;
    for (int step = 0; step < 3; ++step) {
      passes.push_back(std::make_unique<BitByBit>(net, reducer_input(group.rank())));
      // In another order on each rank.
      passes.back()->feed(group.rank() == 0 ? 0 : 1);
      passes.back()->feed(group.rank() == 0 ? 1 : 0);
      EXPECT_TRUE(reducer.is_open());
      passes.back()->close();
      EXPECT_EQ(reducer.rounds(), step + 1);
    }
    for (const auto& pass : passes)  // the later ones have not changed it
      for (int block = 0; block < 2; ++block)
        EXPECT_TRUE(
            same(pass->gradients.get(net.weight(block)), whole->weight(block).grad()));
    EXPECT_FALSE(net.weight(0).grad().defined());
  });
}

TEST(ReducerRanks, APassThatIsDroppedTellsTheOthersWhy) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const Blocks net(2);
    Reducer reducer(parameters_of(net), group, {.bucket_bytes = 1});
    BitByBit pass(net, reducer_input());
    pass.feed(1);
    if (group.rank() == 1) {
      pass.drop("on worker server: out of rows");
      EXPECT_TRUE(reducer.has_failed());
    } else {
      pass.feed(0);
      const std::string message = message_of<PeerError>([&] { pass.close(); });
      EXPECT_TRUE(contains(
          message,
          "the backward of rank 1 failed before all its gradients were there: on "
          "worker "
          "server: out of rows"))
          << message;
      pass.drop("");
    }
    const comm::Group world = group.renew();
    reducer.replace_group(world);
    BitByBit again(net, reducer_input());
    again.feed(0);
    again.feed(1);
    again.close();
    EXPECT_EQ(reducer.rounds(), 1);
  });
}

TEST(ReducerRanks, AnotherPassMeanwhileIsRefusedOnAllRanks) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const Blocks net(2);
    Reducer reducer(parameters_of(net), group, {.bucket_bytes = 1});
    std::optional<BitByBit> one(std::in_place, net, reducer_input());
    one->feed(0);
    if (group.rank() == 1) {
      BitByBit other(net, reducer_input());
      const std::string message = message_of<InvalidArgument>([&] { other.feed(1); });
      EXPECT_TRUE(contains(
          message,
          "[dp] expected one backward at a time over a model, got one into gradients "
          "apart from .grad on rank 1 while one into gradients apart from .grad runs"))
          << message;
      other.drop("");
      EXPECT_TRUE(reducer.is_open());  // that of the first
    }
    const std::string message = message_of<Error>([&] {
      one->feed(1);
      one->close();
    });
    EXPECT_TRUE(contains(message, "one backward at a time")) << message;
    one->drop("");
    const comm::Group world = group.renew();
    reducer.replace_group(world);
    BitByBit again(net, reducer_input());
    again.feed(0);
    again.feed(1);
    again.close();
  });
}

// Whoever ends a pass late ends nothing that came after it.
TEST(ReducerRanks, APassFromBeforeTheGroupWasReplaced) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const Blocks net(2);
    Reducer reducer(parameters_of(net), group, {.bucket_bytes = 1});
    BitByBit old(net, reducer_input());
    old.feed(0);
    reducer.replace_group(group);
    BitByBit pass(net, reducer_input());
    pass.feed(0);
    old.drop("too late");
    pass.feed(1);
    pass.close();
    EXPECT_EQ(reducer.rounds(), 1);
  });
}

TEST(ReducerRanks, APassThatOutlivesTheModel) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const Blocks net(2);
    std::optional<Reducer> reducer(
        std::in_place,
        parameters_of(net),
        group,
        DataParallelOptions{.bucket_bytes = 1});
    BitByBit pass(net, reducer_input());
    pass.feed(0);
    if (group.rank() == 1) {
      reducer.reset();
      pass.feed(1);
      pass.close();
      EXPECT_TRUE(pass.gradients.get(net.weight(0)).defined());
    } else {
      const std::string message = message_of<PeerError>([&] {
        pass.feed(1);
        pass.close();
      });
      EXPECT_TRUE(contains(message, "its model is gone")) << message;
      pass.drop("");
    }
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
