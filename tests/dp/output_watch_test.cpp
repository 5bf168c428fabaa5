#include "trireme/dp/output_watch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "models.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::run_world;
using testing::same;

/// Runs alone, with a reducer over some blocks and a watch on it.
void with_watch(
    const DataParallelOptions& options,
    const std::function<void(Blocks&, Reducer&, OutputWatch&)>& body) {
  run_world(testing::Backend::Local, 1, [&](const comm::Group& group) {
    Blocks net(3);
    std::vector<Parameter> parameters;
    for (const auto& parameter : net.named_parameters())
      parameters.push_back({parameter.key(), parameter.value()});
    Reducer reducer(parameters, group, options);
    OutputWatch watch(reducer);
    body(net, reducer, watch);
  });
}

at::Tensor input() {
  return whole_numbers({2, 4}, 1);
}

TEST(OutputWatchRanks, ChangesNothingAndCopiesNothing) {
  with_watch({}, [](Blocks& net, Reducer&, OutputWatch& watch) {
    watch.begin_forward();
    const at::Tensor out = net.forward(input());
    const at::Tensor seen = watch.watch(out);
    watch.end_forward();
    EXPECT_EQ(seen.const_data_ptr(), out.const_data_ptr());
    EXPECT_TRUE(seen.requires_grad());
    EXPECT_FALSE(watch.watch(at::Tensor()).defined());
    const at::Tensor plain = at::ones({2});
    EXPECT_TRUE(watch.watch(plain).is_same(plain));
    // A write into the one is noticed in the other.
    const auto version = out._version();
    seen.detach().add_(1);
    EXPECT_GT(out._version(), version);
  });
}

TEST(OutputWatchRanks, WritesIntoAnOutputHaveTheirGradient) {
  with_watch({}, [](Blocks& net, Reducer&, OutputWatch& watch) {
    const auto other = copy_of(net);
    watch.begin_forward();
    at::Tensor seen = watch.watch(net.forward(input()));
    watch.end_forward();
    seen.mul_(3);
    seen.sum().backward();
    (other->forward(input()) * 3).sum().backward();
    expect_same_gradients(net, *other);
  });
}

TEST(OutputWatchRanks, SaysWhatOutputsDoNotLeadTo) {
  with_watch(
      {.find_unused = true}, [](Blocks& net, Reducer& reducer, OutputWatch& watch) {
        watch.begin_forward();
        const at::Tensor seen = watch.watch(net.forward(input(), {0, 2}));
        watch.end_forward();
        seen.sum().backward();
        EXPECT_FALSE(net.weight(1).grad().defined());
        EXPECT_EQ(reducer.outcome().reached, (std::vector<int64_t>{1, 1, 0, 0, 1, 1}));
      });
}

// What a graph leads to that goes on at another worker nobody here knows: nothing
// counts as left out before the backward has ended.
TEST(OutputWatchRanks, WaitsForAllWhereAGraphGoesOnElsewhere) {
  struct End final : autograd::Node {
    autograd::variable_list apply(autograd::variable_list&&) override { return {}; }
  };
  for (const bool by_reference : {false, true})
    with_watch(
        {.bucket_bytes = 1, .find_unused = true, .norm = true},
        [&](Blocks& net, Reducer& reducer, OutputWatch& watch) {
          // Made first, so that it comes last.
          const at::Tensor back = net.block(0, input()).sum();
          watch.begin_forward();
          at::Tensor other = at::ones({}, at::kDouble);
          torch::autograd::create_gradient_edge(other, autograd::make_node<End>());
          const at::Tensor out = net.block(2, input()).sum();
          at::Tensor seen = watch.watch(by_reference ? out : out * other);
          if (by_reference)
            watch.elsewhere();
          watch.end_forward();
          (seen + back).backward();
          EXPECT_EQ(reducer.outcome().used, (std::vector<int64_t>{1, 1, 0, 0, 1, 1}));
        });
}

TEST(OutputWatchRanks, ExemptIsWhatLiesBehindOutputsOfNoUse) {
  with_watch({}, [](Blocks& net, Reducer& reducer, OutputWatch& watch) {
    watch.begin_forward();
    const at::Tensor left = watch.watch(net.block(0, input()));
    const at::Tensor right = watch.watch(net.block(1, input()));
    watch.end_forward();
    EXPECT_TRUE(watch.is_exempt(reducer.hooks().node(0).get()));
    EXPECT_TRUE(watch.is_exempt(reducer.hooks().node(2).get()));
    EXPECT_FALSE(watch.is_exempt(reducer.hooks().node(4).get()));
    EXPECT_TRUE(testing::contains(
        testing::message_of<InvalidArgument>([&] { left.sum().backward(); }),
        "for w2, b2;"));
  });
}

TEST(OutputWatchRanks, SinksOutliveTheWatch) {
  run_world(testing::Backend::Local, 1, [](const comm::Group& group) {
    Blocks net(1);
    at::Tensor seen;
    {
      Reducer reducer({{"w0", net.weight(0)}, {"b0", net.bias(0)}}, group);
      OutputWatch watch(reducer);
      watch.begin_forward();
      seen = watch.watch(net.forward(input()));
      watch.end_forward();
    }
    seen.sum().backward();
    EXPECT_TRUE(net.weight(0).grad().defined());
  });
}

// torch::autograd::grad() asks for gradients of its own: that is no round.
TEST(OutputWatchRanks, GradientsOnTheSideAreNoRound) {
  with_watch({}, [](Blocks& net, Reducer& reducer, OutputWatch& watch) {
    watch.begin_forward();
    const at::Tensor x = input().requires_grad_();
    const at::Tensor seen = watch.watch(net.forward(x));
    watch.end_forward();
    torch::autograd::grad({seen.sum()}, {x, net.weight(1)}, {}, true);
    EXPECT_FALSE(reducer.is_open());
    EXPECT_EQ(reducer.rounds(), 0);
    seen.sum().backward();
    EXPECT_EQ(reducer.rounds(), 1);
  });
}

// What the program drops is gone at once, not with the next forward.
TEST(OutputWatchRanks, GraphsGoWithTheirOutputs) {
  with_watch({}, [](Blocks& net, Reducer&, OutputWatch& watch) {
    const at::Tensor hidden = net.block(0, input());
    const auto alone = hidden.use_count();
    watch.begin_forward();
    {
      const at::Tensor seen = watch.watch(hidden.square().sum());
      watch.end_forward();
      EXPECT_GT(hidden.use_count(), alone) << "saved for backward";
    }
    EXPECT_EQ(hidden.use_count(), alone);
  });
}

// An output that was dropped before the backward of another still excuses what lies
// behind it.
TEST(OutputWatchRanks, ADroppedOutputIsStillExempt) {
  with_watch({}, [](Blocks& net, Reducer& reducer, OutputWatch& watch) {
    watch.begin_forward();
    const at::Tensor left = watch.watch(net.forward(input(), {0, 2}));
    {
      const at::Tensor right = watch.watch(net.block(1, input()));
      watch.end_forward();
    }
    left.sum().backward();
    EXPECT_EQ(reducer.rounds(), 1);
    EXPECT_FALSE(net.weight(1).grad().defined());
  });
}

}  // namespace
}  // namespace trireme::dp
