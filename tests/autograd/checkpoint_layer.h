// A layer to put into a checkpoint, and the ways of running backward.
#pragma once
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>

#include "lambda_node.h"
#include "random_graph.h"
#include "trireme/autograd/checkpoint.h"
#include "trireme/autograd/executor.h"

namespace trireme::autograd {

inline Roots from(const variable_list& outputs) {
  Roots roots;
  for (const at::Tensor& output : outputs)
    if (output.requires_grad()) {
      roots.edges.push_back(torch::autograd::impl::gradient_edge(output));
      roots.gradients.push_back(at::ones_like(output.detach()));
    }
  return roots;
}

inline at::Tensor take_grad(const at::Tensor& tensor) {
  return std::exchange(tensor.mutable_grad(), at::Tensor());
}

enum class Way { Fused, Split, Engine };

/// A layer with weights that counts how often it runs.
struct Layer {
  at::Tensor w = leaf({5, 5}), b = leaf({5}), scale = leaf({5}), out = leaf({5, 5});
  int runs = 0;
  std::optional<MemoryWatch> inside;

  variable_list weights() const { return {w, b, scale, out}; }
  at::Tensor operator()(const at::Tensor& x) {
    ++runs;
    const at::Tensor h = at::addmm(b, x, w).exp();
    inside.emplace(h);
    return (h.matmul(out) * scale).tanh();
  }
  at::Tensor again(const at::Tensor& x, const CheckpointOptions& options = {}) {
    return checkpoint(
        [this](const at::Tensor& input) { return (*this)(input); }, x, options);
  }
};

/// Gradients of leaves, first and second time added up, in one of three ways.
inline variable_list run(
    Way way,
    const std::function<variable_list()>& make,
    const variable_list& inputs,
    const variable_list& weights) {
  Executor executor;
  variable_list gradients;
  for (int pass = 0; pass < 2; ++pass) {
    const std::vector<NodePtr> nodes = nodes_of(inputs);
    Roots roots = from(make());
    WeightRest rest;
    variable_list got;
    if (way == Way::Fused)
      got = executor.backward(std::move(roots), {.inputs = nodes});
    if (way == Way::Split) {
      got = executor.input_pass(std::move(roots), {.inputs = nodes}, rest);
      executor.weight_pass(std::move(rest), {});
    }
    if (way == Way::Engine) {
      run_engine(roots.edges, roots.gradients, false);
      for (const at::Tensor& input : inputs)
        got.push_back(take_grad(input));
    }
    gradients.insert(gradients.end(), got.begin(), got.end());
  }
  for (const at::Tensor& weight : weights)
    gradients.push_back(take_grad(weight));
  return gradients;
}

}  // namespace trireme::autograd
