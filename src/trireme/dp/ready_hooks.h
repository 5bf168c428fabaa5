// Tells when the gradient of a parameter has been added up by a backward pass.
#pragma once
#include <functional>
#include <memory>
#include <string>
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
  /// Hooks also the nodes that parameters have now. Those of graphs that were made
  /// before still tell.
  void follow(const std::vector<Parameter>& parameters);

 private:
  class Hook;
  /// What hooks hold: graphs may outlive this object.
  struct Link {
    ReadyListener* listener = nullptr;
  };
  std::shared_ptr<Link> link_;
  /// Held, since a tensor does not keep its own.
  std::vector<autograd::NodePtr> nodes_;
  std::vector<uintptr_t> keys_;
};

/// Where the pass that runs on this thread puts gradients: always the same for one
/// backward, whichever of its threads asks.
autograd::GradientStore& store_of_pass();

/// Calls one of both, once: `ended` when the pass that runs on this thread has ended
/// well, `failed` when it or `ended` has not, with the reason if that is known.
void at_end_of_pass(
    std::function<void()> ended, std::function<void(const std::string& why)> failed);

}  // namespace trireme::dp
