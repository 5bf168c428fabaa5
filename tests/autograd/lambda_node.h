// Nodes made of functions, leaves, and looks at whether memory is still there.
#pragma once
#include <functional>
#include <string>
#include <utility>

#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/autograd/node.h"

namespace trireme::autograd {

/// A node whose backward is a function of the gradients.
class LambdaNode : public Node {
 public:
  using Body = std::function<variable_list(variable_list)>;
  LambdaNode(edge_list edges, Body body)
      : Node(std::move(edges)), body_(std::move(body)) {}
  std::string name() const override { return "LambdaNode"; }
  variable_list apply(variable_list&& gradients) override {
    return body_(std::move(gradients));
  }

 private:
  Body body_;
};

/// A tensor like `input` whose backward is `body`.
inline at::Tensor through(const at::Tensor& input, LambdaNode::Body body) {
  at::Tensor output = input.detach();
  torch::autograd::create_gradient_edge(
      output,
      make_node<LambdaNode>(
          edge_list{torch::autograd::impl::gradient_edge(input)}, std::move(body)));
  return output;
}

/// Random numbers that want a gradient.
inline at::Tensor leaf(at::IntArrayRef sizes) {
  return at::randn(sizes).set_requires_grad(true);
}

/// Says whether the memory of a tensor is still there, and does not keep it.
class MemoryWatch {
 public:
  explicit MemoryWatch(const at::Tensor& tensor)
      : storage_(tensor.storage().getWeakStorageImpl()) {}
  bool is_alive() const { return !storage_.expired(); }

 private:
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;
};

}  // namespace trireme::autograd
