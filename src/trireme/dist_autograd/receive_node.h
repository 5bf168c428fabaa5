// Where a worker's graph goes on at another one.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "trireme/autograd/node.h"
#include "trireme/dist_autograd/ids.h"

namespace trireme::dist_autograd {

class ContextState;

/// Made of the tensors that came with a call or an answer: their gradients go back to
/// the worker that has sent them.
class ReceiveNode final : public autograd::Node {
 public:
  ReceiveNode(std::weak_ptr<ContextState> context, SendId send, rpc::WorkerId sender);

  const SendId& send() const { return send_; }
  /// The worker that gradients go back to.
  rpc::WorkerId sender() const { return sender_; }
  /// The context that the tensors came in; null when it has ended.
  std::shared_ptr<ContextState> context() const { return context_.lock(); }

  autograd::variable_list apply(autograd::variable_list&& gradients) override;
  std::string name() const override { return "trireme::Receive"; }

 private:
  std::weak_ptr<ContextState> context_;
  SendId send_;
  rpc::WorkerId sender_;
};

/// Makes one the history of all tensors that need a gradient; none if no tensor does.
void attach_receive(
    const std::shared_ptr<ContextState>& context,
    const SendId& send,
    std::vector<at::Tensor>& tensors);

}  // namespace trireme::dist_autograd
