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
    autograd::WeightPass rest;
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

}  // namespace trireme::model
