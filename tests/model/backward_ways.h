// One backward over a list of layers, in each of the ways there are.
#pragma once
#include <map>
#include <string>

#include <ATen/ops/ones_like.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/variable.h>

#include "small_models.h"
#include "trireme/autograd/executor.h"
#include "trireme/autograd/random_stream.h"
#include "trireme/model/build_stages.h"
#include "trireme/pipe/layers.h"
#include "trireme/testing/check.h"

namespace trireme::model {

enum class Way { Fused, Split };
using Gradients = std::map<std::string, at::Tensor>;

/// The gradients of all parameters and, as "input", of a hidden input, with dropout of
/// a fixed context. The gradient of the output is made of ones.
inline Gradients gradients_of(
    const pipe::LayerList& layers, const at::Tensor& input, Way way) {
  const autograd::RandomScope scope(
      autograd::RandomContext{.seed = 3, .step = 1, .first_sample = 2});
  const at::Tensor x = input.detach();
  std::vector<autograd::NodePtr> nodes;
  if (x.is_floating_point()) {
    x.set_requires_grad(true);
    nodes.push_back(torch::autograd::impl::grad_accumulator(x));
  }
  const at::Tensor y = pipe::run_layers(layers, {x}).at(0);
  autograd::Roots roots{
      {torch::autograd::impl::gradient_edge(y)}, {at::ones_like(y.detach())}};
  autograd::Executor executor;
  autograd::variable_list got;
  if (way == Way::Fused) {
    got = executor.backward(std::move(roots), {.inputs = nodes});
  } else {
    autograd::WeightRest rest;
    got = executor.input_pass(std::move(roots), {.inputs = nodes}, rest);
    executor.weight_pass(std::move(rest), {});
  }
  Gradients gradients;
  if (!got.empty())
    gradients["input"] = got[0];
  for (const auto& [name, parameter] : pipe::parameters(layers))
    gradients[name] = std::exchange(parameter.mutable_grad(), at::Tensor());
  return gradients;
}

inline void expect_same(const Gradients& got, const Gradients& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& [name, gradient] : wanted) {
    ASSERT_TRUE(gradient.defined()) << name;
    EXPECT_TRUE(testing::same(got.at(name), gradient)) << name;
  }
}

/// Split and fused, whole and a stage, with and without checkpoints: all the same, for
/// a model of two blocks that are 24 wide.
inline void expect_ways_agree(const ModelPlan& plan, at::ScalarType dtype) {
  const at::Tensor hidden =
      at::randn({2, 8, 24}, at::detail::createCPUGenerator(9)).to(dtype);
  for (const bool checkpoint : {false, true}) {
    const BuildOptions options{.seed = 1, .dtype = dtype, .checkpoint = checkpoint};
    const pipe::LayerList whole = build_layers(plan, options);
    const at::Tensor ids = some_tokens(2, 8);
    expect_same(
        gradients_of(whole, ids, Way::Split), gradients_of(whole, ids, Way::Fused));
    const auto middle = build_stages(plan, {{1, 4}}, options)[0];
    const Gradients fused = gradients_of(middle, hidden, Way::Fused);
    expect_same(gradients_of(middle, hidden, Way::Split), fused);
    const auto plain = build_stages(plan, {{1, 4}}, {.seed = 1, .dtype = dtype})[0];
    expect_same(fused, gradients_of(plain, hidden, Way::Fused));
  }
}

/// bfloat16 gives about what float32 does.
inline void expect_half_is_near(const ModelPlan& plan) {
  const at::Tensor ids = some_tokens(2, 8);
  const auto run = [&](at::ScalarType dtype) {
    return pipe::run_layers(build_layers(plan, {.dtype = dtype}), {ids}).at(0);
  };
  const at::Tensor low = run(at::kBFloat16), high = run(at::kFloat);
  EXPECT_EQ(low.scalar_type(), at::kBFloat16);
  EXPECT_LT((low.to(at::kFloat) - high).abs().max().item<double>(), 0.02);
}

}  // namespace trireme::model
