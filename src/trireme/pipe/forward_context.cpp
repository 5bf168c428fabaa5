#include "trireme/pipe/forward_context.h"

#include "trireme/core/error.h"

namespace trireme::pipe {
namespace {

thread_local ForwardScope* current_scope = nullptr;

}  // namespace

ForwardScope::ForwardScope(
    const ForwardContext& context, std::vector<at::Tensor>* losses)
    : context_(context), losses_(losses), outer_(current_scope) {
  current_scope = this;
}

ForwardScope::~ForwardScope() {
  current_scope = outer_;
}

const ForwardContext* forward_context() {
  return current_scope == nullptr ? nullptr : &current_scope->context_;
}

void add_loss(const at::Tensor& loss) {
  if (current_scope == nullptr || current_scope->losses_ == nullptr)
    throw InvalidArgument(
        "[pipe] expected an auxiliary loss from within the forward of a pipeline's "
        "stage, got one from outside; compute it there, not where backward computes a "
        "block again");
  if (!loss.defined() || loss.numel() != 1)
    throw InvalidArgument(text(
        "[pipe] expected an auxiliary loss with one element for stage ",
        current_scope->context_.stage,
        ", microbatch ",
        current_scope->context_.microbatch,
        ", got ",
        loss.defined() ? text("a tensor of ", loss.numel())
                       : text("an undefined tensor"),
        "; reduce it with mean() or sum()"));
  current_scope->losses_->push_back(loss);
}

}  // namespace trireme::pipe
