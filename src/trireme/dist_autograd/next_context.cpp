#include "trireme/dist_autograd/next_context.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace trireme::dist_autograd {
namespace {

// At most one for each agent.
thread_local std::vector<std::weak_ptr<NextContext>> next_of_thread;

std::shared_ptr<NextContext> find(const Contexts& contexts) {
  std::erase_if(next_of_thread, [](const auto& place) {
    const auto next = place.lock();
    return !next || next->begun();
  });
  for (const auto& place : next_of_thread)
    if (auto next = place.lock(); next && next->contexts().get() == &contexts)
      return next;
  return nullptr;
}

}  // namespace

NextContext::NextContext(std::shared_ptr<Contexts> contexts)
    : contexts_(std::move(contexts)), state_(contexts_->create()) {}

NextContext::~NextContext() {
  if (!begun_)
    contexts_->end(state_->id());
}

std::shared_ptr<ContextState> NextContext::begin() {
  begun_ = true;
  return state_;
}

std::shared_ptr<NextContext> next_context(const std::shared_ptr<Contexts>& contexts) {
  if (auto next = find(*contexts))
    return next;
  auto next = std::make_shared<NextContext>(contexts);
  next_of_thread.push_back(next);
  return next;
}

std::shared_ptr<ContextState> begin_context(Contexts& contexts) {
  const auto next = find(contexts);
  return next ? next->begin() : contexts.create();
}

}  // namespace trireme::dist_autograd
