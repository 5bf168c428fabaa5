#include "trireme/dist_autograd/receive_node.h"

#include <limits>
#include <utility>

#include <torch/csrc/autograd/functions/utils.h>

#include "trireme/core/error.h"
#include "trireme/dist_autograd/pass.h"

namespace trireme::dist_autograd {

// As leaves do, it goes before all others: the sooner the other worker can begin.
ReceiveNode::ReceiveNode(
    std::weak_ptr<ContextState> context, SendId send, rpc::WorkerId sender)
    : Node(std::numeric_limits<uint64_t>::max()),
      context_(std::move(context)),
      send_(send),
      sender_(sender) {}

autograd::variable_list ReceiveNode::apply(autograd::variable_list&& gradients) {
  Pass* pass = Pass::current();
  if (pass == nullptr)
    throw InvalidArgument(
        "[dist_autograd] expected Context::backward() for a graph that goes on at "
        "another worker, got another backward; call that of the context in which the "
        "call was made");
  pass->pass_on(*this, std::move(gradients));
  return {};
}

void attach_receive(
    const std::shared_ptr<ContextState>& context,
    const SendId& send,
    std::vector<at::Tensor>& tensors) {
  autograd::NodePtr node;
  for (at::Tensor& tensor : tensors) {
    if (!autograd::needs_gradient(tensor))
      continue;
    if (!node)
      node = autograd::make_node<ReceiveNode>(context, send, send.sender());
    tensor.set_requires_grad(false);
    torch::autograd::set_history(tensor, node);
  }
}

}  // namespace trireme::dist_autograd
