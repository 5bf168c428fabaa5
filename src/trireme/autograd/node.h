// The nodes of torch's autograd graph, whatever pointer a version of it holds them by.
#pragma once
#include <memory>
#include <type_traits>
#include <utility>

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

namespace trireme::autograd {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Node;
using torch::autograd::variable_list;

/// What owns a node: a shared_ptr up to libtorch 2.11, an intrusive_ptr from 2.13 on.
using NodePtr = decltype(Edge::function);

/// Whether backward has a gradient for a tensor, which may be undefined.
inline bool needs_gradient(const at::Tensor& tensor) {
  return tensor.defined() && tensor.requires_grad();
}

/// Makes a node.
///
///     auto node = make_node<Recompute>(std::move(edges));
template <class T, class... Args>
auto make_node(Args&&... args) {
  if constexpr (std::is_same_v<NodePtr, std::shared_ptr<Node>>)
    // Without this deleter the end of a long graph overflows the stack.
    return std::shared_ptr<T>(
        new T(std::forward<Args>(args)...), [](auto* node) { deleteNode(node); });
  else
    return c10::make_intrusive<T>(std::forward<Args>(args)...);
}

}  // namespace trireme::autograd
