// Tells when the gradient of a parameter has been added up by a backward pass.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "trireme/autograd/gradient_store.h"
#include "trireme/autograd/node.h"
#include "trireme/dp/parameter.h"

namespace trireme::dp {

/// Who wants to know.
class ReadyListener {
 public:
  /// The gradient of a parameter is in the store; undefined if none came.
  virtual void ready(size_t parameter) = 0;

 protected:
  ~ReadyListener() = default;
};

/// Hooks on the nodes that add up gradients, for torch's engine and for our executor.
/// They are gone with this object.
class ReadyHooks {
 public:
  ReadyHooks(const std::vector<Parameter>& parameters, ReadyListener& listener);
  ~ReadyHooks();
  ReadyHooks(const ReadyHooks&) = delete;
  ReadyHooks& operator=(const ReadyHooks&) = delete;

  /// The node of a parameter, by which it is known in a graph.
  const autograd::NodePtr& node(size_t parameter) const { return nodes_[parameter]; }
  /// Whether the parameter still has that node: what is done to a parameter's data can
  /// give it another one.
  bool is_current(size_t parameter, const at::Tensor& tensor) const;
  /// Whether the pass that runs on this thread adds up gradients of any parameter:
  /// torch::autograd::grad() does not.
  bool in_pass() const;

 private:
  class Hook;
  /// Held, since a tensor does not keep its own.
  std::vector<autograd::NodePtr> nodes_;
  std::vector<uintptr_t> keys_;
};

/// Where the pass that runs on this thread puts gradients.
autograd::GradientStore& store_of_pass();

/// Calls `f` when the pass that runs on this thread has ended well.
void at_end_of_pass(std::function<void()> f);

}  // namespace trireme::dp
