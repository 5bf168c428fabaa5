#include "trireme/dist_autograd/context.h"

#include <utility>

#include "trireme/core/error.h"
#include "trireme/dist_autograd/next_context.h"

namespace trireme::dist_autograd {
namespace {

std::shared_ptr<ContextState> new_context(Contexts& contexts) {
  if (const auto outer = current_context())
    throw InvalidArgument(text(
        "[dist_autograd] expected a thread that works in no context, got one in ",
        to_string(outer->id()),
        "; end that one first, or go on in it by this_context()"));
  return begin_context(contexts);
}

}  // namespace

Context::Context(std::shared_ptr<Contexts> contexts)
    : ContextView(new_context(*contexts)),
      contexts_(std::move(contexts)),
      scope_(state()) {}

Context::Context(const rpc::Agent& agent) : Context(contexts_of(agent)) {}

Context::Context(const rpc::ThisAgent& agent) : Context(contexts_of(agent)) {}

Context::~Context() {
  contexts_->end(id());
}

ContextView this_context() {
  if (auto context = current_context())
    return ContextView(std::move(context));
  throw InvalidArgument(
      "[dist_autograd] expected a thread that works in a context, got one that does "
      "not; make a Context, or call this in a function that was called inside one");
}

ContextView context_of(const rpc::Agent& agent, const ContextId& id) {
  return ContextView(contexts_of(agent)->find(id));
}

}  // namespace trireme::dist_autograd
