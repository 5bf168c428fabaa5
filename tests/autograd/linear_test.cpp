#include "trireme/autograd/linear.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/autograd/executor.h"
#include "trireme/testing/check.h"

namespace trireme::autograd {
namespace {

using torch::autograd::impl::gradient_edge;

constexpr const char* kOurs = "trireme::LinearBackward";

struct LinearCase {
  at::Tensor x, weight, bias;
  WeightOrder order = WeightOrder::OutIn;

  at::Tensor ours() const { return autograd::linear(x, weight, bias, order); }
  at::Tensor theirs() const {
    return at::linear(x, order == WeightOrder::OutIn ? weight : weight.t(), bias);
  }
  variable_list leaves() const {
    variable_list all;
    for (const at::Tensor& one : {x, weight, bias})
      if (one.defined() && one.requires_grad())
        all.push_back(one);
    return all;
  }
};

at::Tensor half_leaf(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  return at::randn(sizes, at::TensorOptions(dtype)).mul_(0.5).requires_grad_();
}

/// Large enough to be taken.
LinearCase large(WeightOrder order = WeightOrder::OutIn) {
  return {
      .x = half_leaf({3, 70, 192}),
      .weight =
          order == WeightOrder::OutIn ? half_leaf({320, 192}) : half_leaf({192, 320}),
      .bias = half_leaf({320}),
      .order = order};
}

bool near(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && at::allclose(a, b, 1e-4, 1e-4);
}

void expect_as_libtorch(const LinearCase& layer, bool taken = true) {
  const at::Tensor ours = layer.ours(), theirs = layer.theirs();
  EXPECT_TRUE(near(ours, theirs));
  EXPECT_EQ(ours.requires_grad(), theirs.requires_grad());
  if (!ours.requires_grad())
    return;
  EXPECT_EQ(ours.grad_fn()->name() == kOurs, taken);
  const at::Tensor gradient = at::randn_like(ours);
  const auto mine = torch::autograd::grad({ours}, layer.leaves(), {gradient});
  const auto other = torch::autograd::grad({theirs}, layer.leaves(), {gradient});
  for (size_t i = 0; i < mine.size(); ++i) {
    EXPECT_TRUE(near(mine[i], other[i])) << i;
    EXPECT_TRUE(mine[i].is_contiguous()) << i;
  }
}

TEST(Linear, EqualsLibtorchInBothOrders) {
  at::manual_seed(1);
  for (const WeightOrder order : {WeightOrder::OutIn, WeightOrder::InOut}) {
    LinearCase layer = large(order);
    expect_as_libtorch(layer);
    layer.bias = at::Tensor();
    expect_as_libtorch(layer);
    layer.x = half_leaf({210, 192});
    expect_as_libtorch(layer);
    layer.x = half_leaf({2, 192, 105}).transpose(1, 2);
    EXPECT_TRUE(near(layer.ours(), layer.theirs()));
  }
}

/// So that every machine tries both libraries.
TEST(Linear, EqualsLibtorchWithoutOneDnn) {
  at::manual_seed(1);
  const bool before = at::globalContext().userEnabledMkldnn();
  at::globalContext().setUserEnabledMkldnn(false);
  for (const WeightOrder order : {WeightOrder::OutIn, WeightOrder::InOut})
    expect_as_libtorch(large(order));
  at::globalContext().setUserEnabledMkldnn(before);
}

TEST(Linear, ObeysAutocast) {
  const LinearCase layer = large();
  at::autocast::set_autocast_cache_enabled(false);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  EXPECT_EQ(layer.ours().scalar_type(), at::kBFloat16);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::set_autocast_cache_enabled(true);
  EXPECT_EQ(layer.ours().scalar_type(), at::kFloat);
}

TEST(Linear, LeavesOutWhatGetsNoGradient) {
  at::manual_seed(2);
  for (int frozen = 0; frozen < 7; ++frozen) {
    LinearCase layer = large();
    layer.x.set_requires_grad((frozen & 1) == 0);
    layer.weight.set_requires_grad((frozen & 2) == 0);
    layer.bias.set_requires_grad((frozen & 4) == 0);
    expect_as_libtorch(layer);
  }
  LinearCase layer = large();
  const c10::NoGradGuard guard;
  expect_as_libtorch(layer);
}

TEST(Linear, LeavesTheRestToLibtorch) {
  at::manual_seed(3);
  LinearCase layer = large();
  layer.x = half_leaf({2, 192});
  expect_as_libtorch(layer, false);  // small
  layer.order = WeightOrder::InOut;
  layer.weight = half_leaf({192, 320});
  EXPECT_TRUE(near(layer.ours(), layer.theirs()));
  layer.bias = at::Tensor();
  EXPECT_TRUE(near(layer.ours(), layer.theirs()));
  expect_as_libtorch(
      {.x = half_leaf({210, 192}, at::kDouble),
       .weight = half_leaf({320, 192}, at::kDouble),
       .bias = half_leaf({320}, at::kDouble)},
      false);
  EXPECT_EQ(
      autograd::linear(half_leaf({0, 192}), half_leaf({320, 192})).sizes(),
      at::IntArrayRef({0, 320}));
  EXPECT_THROW(
      autograd::linear(
          half_leaf({}), half_leaf({192, 320}), half_leaf({320}), WeightOrder::InOut),
      std::exception);
  EXPECT_THROW(
      autograd::linear(half_leaf({210, 191}), half_leaf({320, 192})), c10::Error);
  EXPECT_THROW(
      autograd::linear(half_leaf({210, 192}), half_leaf({320, 192}), half_leaf({3})),
      c10::Error);
}

TEST(Linear, GivesTheSameBitsAgain) {
  const LinearCase layer = large();
  EXPECT_TRUE(testing::same(layer.ours(), layer.ours()));
}

TEST(Linear, SplitsItsBackward) {
  at::manual_seed(4);
  for (const WeightOrder order : {WeightOrder::OutIn, WeightOrder::InOut}) {
    const LinearCase layer = large(order);
    const at::Tensor gradient = at::randn({3, 70, 320});
    const auto whole =
        torch::autograd::grad({layer.ours()}, layer.leaves(), {gradient});

    const at::Tensor y = layer.ours();
    const std::vector<NodePtr> inputs{gradient_edge(layer.x).function};
    Executor executor;
    WeightRest later;
    const auto of_input = executor.input_pass(
        {.edges = {gradient_edge(y)}, .gradients = {gradient}},
        {.inputs = inputs},
        later);
    EXPECT_TRUE(testing::same(of_input.at(0), whole[0]));
    EXPECT_FALSE(layer.weight.grad().defined());
    executor.weight_pass(std::move(later), {});
    EXPECT_TRUE(testing::same(layer.weight.grad(), whole[1]));
    EXPECT_TRUE(testing::same(layer.bias.grad(), whole[2]));
  }
}

class LinearOrders : public ::testing::TestWithParam<WeightOrder> {};

TEST_P(LinearOrders, HaveGradientsOfGradients) {
  at::manual_seed(5);
  const LinearCase layer = large(GetParam());
  const auto second = [&](const at::Tensor& y) {
    const auto first = torch::autograd::grad(
        {y.pow(2).sum()}, {layer.x, layer.weight}, {}, true, true);
    return torch::autograd::grad(
        {first[0].pow(2).mean() + first[1].pow(2).mean()}, layer.leaves());
  };
  const auto ours = second(layer.ours()), theirs = second(layer.theirs());
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(at::allclose(ours[i], theirs[i], 1e-3, 1e-3)) << i;
}

INSTANTIATE_TEST_SUITE_P(
    Both, LinearOrders, ::testing::Values(WeightOrder::OutIn, WeightOrder::InOut));

TEST(Linear, SeesThatAWeightWasChanged) {
  const LinearCase layer = large();
  const at::Tensor y = layer.ours();
  {
    const c10::NoGradGuard guard;
    layer.weight.add_(1);
  }
  EXPECT_THROW(y.sum().backward(), c10::Error);
  const at::Tensor again = layer.ours();
  again.sum().backward();
  EXPECT_THROW(again.sum().backward(), c10::Error);  // the graph is gone
}

TEST(Linear, CanBeChangedInPlace) {
  const LinearCase layer = large();
  at::Tensor y = layer.ours();
  y.relu_();
  const auto ours = torch::autograd::grad({y.sum()}, layer.leaves());
  const auto theirs =
      torch::autograd::grad({layer.theirs().relu().sum()}, layer.leaves());
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(near(ours[i], theirs[i])) << i;
}

}  // namespace
}  // namespace trireme::autograd
