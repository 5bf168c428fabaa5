#include "trireme/autograd/split_function.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "checkpoint_layer.h"
#include "trireme/autograd/executor.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::autograd {
namespace {

using Names = std::map<std::string, int64_t>;

/// x w, with a backward of its own that notes its halves.
struct OwnProduct {
  std::string log;

  at::Tensor operator()(const at::Tensor& x, const at::Tensor& w) {
    at::Tensor y;
    {
      const at::NoGradGuard no_grad;
      y = x.mm(w);
    }
    SplitBackward backward{
        .of_inputs =
            [this, w](const variable_list& g) {
              log += 'i';
              return variable_list{g[0].mm(w.t())};
            },
        .of_weights =
            [this, x](const variable_list& g) {
              log += 'w';
              return variable_list{x.t().mm(g[0])};
            },
        .name = "OwnProduct"};
    return split_function({y}, {x}, {w}, std::move(backward))[0];
  }
};

TEST(SplitFunction, EqualsAnOperationOfTorchs) {
  OwnProduct own;
  const at::Tensor x = leaf({3, 5}), w = leaf({5, 5});
  int calls = 0;
  w.register_hook([&calls](const at::Tensor& gradient) {
    ++calls;
    return gradient;
  });
  for (const Way way : {Way::Fused, Way::Split, Way::Engine}) {
    const variable_list wanted =
        run(way, [&] { return variable_list{x.sin().mm(w).tanh()}; }, {x}, {w});
    own.log.clear();
    calls = 0;
    const variable_list got =
        run(way, [&] { return variable_list{own(x.sin(), w).tanh()}; }, {x}, {w});
    EXPECT_TRUE(same_gradients(got, wanted));
    EXPECT_EQ(own.log, "iwiw");
    EXPECT_EQ(calls, 2);
  }
}

TEST(SplitFunction, LeavesWeightsToTheSecondHalf) {
  OwnProduct own;
  const at::Tensor x = leaf({3, 5}), w = leaf({5, 5});
  const std::vector<NodePtr> inputs = nodes_of({x});
  Executor executor;
  WeightRest rest;
  SplitCounts counts;
  executor.input_pass(from({own(x, w)}), {.inputs = inputs, .counts = &counts}, rest);
  EXPECT_EQ(own.log, "i");
  EXPECT_FALSE(w.grad().defined());
  executor.weight_pass(std::move(rest), {});
  EXPECT_EQ(own.log, "iw");
  EXPECT_TRUE(w.grad().defined());
  EXPECT_EQ(counts.names(SplitCounts::kSplit), (Names{{"OwnProduct", 1}}));
}

// What is called a weight may come from an input, and then it cannot wait.
TEST(SplitFunction, GivesAllAtOnceWhereAWeightLeadsToAnInput) {
  OwnProduct own;
  const at::Tensor x = leaf({5, 5}), w = leaf({5, 5});
  const auto make = [&](bool mine) {
    const at::Tensor weight = w * x.cos();
    return variable_list{mine ? own(x, weight) : x.mm(weight)};
  };
  for (const Way way : {Way::Fused, Way::Split, Way::Engine})
    EXPECT_TRUE(same_gradients(
        run(way, [&] { return make(true); }, {x}, {w}),
        run(way, [&] { return make(false); }, {x}, {w})));
}

TEST(SplitFunction, IsNotThereWithoutAGradient) {
  OwnProduct own;
  const at::Tensor x = at::ones({2, 2});
  EXPECT_FALSE(own(x, x).requires_grad());
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(own(leaf({2, 2}), x).requires_grad());
}

TEST(SplitFunction, RefusesWhatCannotBeRight) {
  const at::Tensor x = leaf({2}), w = leaf({2});
  const auto none = [](const variable_list&) { return variable_list(); };
  const auto message = [&](const auto& call) {
    return testing::message_of<InvalidArgument>(call);
  };
  EXPECT_TRUE(testing::contains(
      message([&] { split_function({x.detach()}, {x}, {w}, {.of_inputs = none}); }),
      "expected both halves of the backward of trireme::SplitFunction, got one"));
  EXPECT_TRUE(testing::contains(
      message([&] {
        split_function({x * w}, {x}, {w}, {.of_inputs = none, .of_weights = none});
      }),
      "got one of MulBackward0; compute them under a NoGradGuard"));
  at::Tensor y = split_function(
      {at::ones({2})}, {x}, {w}, {.of_inputs = none, .of_weights = none})[0];
  EXPECT_TRUE(testing::contains(
      message([&] { Executor().backward(from({y}), {}); }),
      "expected 1 gradients from a half of the backward of trireme::SplitFunction, got "
      "0"));
  OwnProduct own;
  const at::Tensor twice = own(leaf({2, 2}), leaf({2, 2}));
  Executor().backward(from({twice}), {});
  EXPECT_TRUE(testing::contains(
      message([&] { Executor().backward(from({twice}), {}); }), "keep the graph"));
}

// A gradient that comes too late for its input would be lost.
TEST(SplitNode, MustNotGiveInputsAnythingInTheSecondHalf) {
  class Late : public SplitNode {
   public:
    using SplitNode::SplitNode;
    std::string name() const override { return "Late"; }

   private:
    variable_list whole_pass(variable_list gradients) override {
      return {gradients[0], gradients[0]};
    }
    variable_list input_pass(variable_list gradients, WeightWork& later) override {
      later = [gradients](GradientStore&) {
        return variable_list{gradients[0], gradients[0]};
      };
      return {at::Tensor(), at::Tensor()};
    }
  };
  const at::Tensor x = leaf({2}), w = leaf({2});
  at::Tensor y = at::ones({2});
  torch::autograd::create_gradient_edge(
      y,
      make_node<Late>(edge_list{
          torch::autograd::impl::gradient_edge(x),
          torch::autograd::impl::gradient_edge(w)}));
  const std::vector<NodePtr> inputs = nodes_of({x});
  Executor executor;
  WeightRest rest;
  executor.input_pass(from({y}), {.inputs = inputs}, rest);
  EXPECT_TRUE(testing::contains(
      testing::message_of<InvalidArgument>(
          [&] { executor.weight_pass(std::move(rest), {}); }),
      "Late: expected gradients of weights only in the second half of its backward, "
      "got "
      "one for input 0"));
}

/// A product whose backward does not look at what is asked of it.
at::Tensor careless(const at::Tensor& x, const at::Tensor& w, int& calls) {
  at::Tensor y = x.detach().mm(w.detach());
  torch::autograd::create_gradient_edge(
      y,
      make_node<LambdaNode>(
          edge_list{
              torch::autograd::impl::gradient_edge(x),
              torch::autograd::impl::gradient_edge(w)},
          [&calls, x = x.detach(), w = w.detach()](const variable_list& g) {
            ++calls;
            return variable_list{g[0].mm(w.t()), x.t().mm(g[0])};
          }));
  return y;
}

TEST(RunWhole, KeepsANodeFromRunningTwice) {
  const at::Tensor x = leaf({3, 5}), w = leaf({5, 5}), norm = leaf({5});
  const std::vector<NodePtr> inputs = nodes_of({x});
  const variable_list wanted =
      run(Way::Fused, [&] { return variable_list{x.mm(w) * norm}; }, {x}, {w, norm});
  for (const bool marked : {false, true}) {
    int calls = 0;
    const auto make = [&] {
      const at::Tensor y = careless(x, w, calls);
      if (marked) {
        run_whole(y);
        run_whole(y);  // once is enough
      }
      return variable_list{y * norm};
    };
    EXPECT_TRUE(same_gradients(run(Way::Split, make, {x}, {w, norm}), wanted));
    EXPECT_EQ(calls, marked ? 2 : 4);  // two passes
    Executor executor;
    WeightRest rest;
    SplitCounts counts;
    executor.input_pass(from(make()), {.inputs = inputs, .counts = &counts}, rest);
    EXPECT_EQ(counts.total(SplitCounts::kSplit), 0);
    const Names lambda{{"LambdaNode", 1}};
    EXPECT_EQ(counts.names(SplitCounts::kTwice), marked ? Names() : lambda);
    Names whole{{"MulBackward0", 1}};  // its weight is a vector
    if (marked)
      whole.insert(lambda.begin(), lambda.end());
    EXPECT_EQ(counts.names(SplitCounts::kWhole), whole);
    counts.clear();
    EXPECT_EQ(counts.total(SplitCounts::kWhole), 0);
  }
}

TEST(RunWhole, CountsInsideACheckpointToo) {
  Layer layer;
  const at::Tensor x = leaf({3, 5});
  const std::vector<NodePtr> inputs = nodes_of({x});
  Executor executor;
  WeightRest rest;
  SplitCounts counts;
  executor.input_pass(
      from({layer.again(x)}), {.inputs = inputs, .counts = &counts}, rest);
  const Names split = counts.names(SplitCounts::kSplit);
  EXPECT_EQ(split.count("trireme::Checkpoint"), 1U);
  EXPECT_EQ(split.count("AddmmBackward0"), 1U);
}

TEST(RunWhole, WantsATensorWithAHistory) {
  EXPECT_THROW(run_whole(at::ones({2})), InvalidArgument);
  EXPECT_THROW(run_whole(leaf({2})), InvalidArgument);
}

}  // namespace
}  // namespace trireme::autograd
