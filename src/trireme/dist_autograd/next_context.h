// A context before it begins, for what is done ahead of it.
#pragma once
#include <memory>

#include "trireme/dist_autograd/contexts.h"

namespace trireme::dist_autograd {

/// The context that a thread will begin next. It ends with the last handle of this,
/// unless the thread has begun it by then.
class NextContext {
 public:
  explicit NextContext(std::shared_ptr<Contexts> contexts);
  ~NextContext();
  NextContext(const NextContext&) = delete;
  NextContext& operator=(const NextContext&) = delete;

  const std::shared_ptr<ContextState>& state() const { return state_; }
  const std::shared_ptr<Contexts>& contexts() const { return contexts_; }
  /// For the Context that begins it.
  std::shared_ptr<ContextState> begin();
  bool begun() const { return begun_; }

 private:
  std::shared_ptr<Contexts> contexts_;
  std::shared_ptr<ContextState> state_;
  bool begun_ = false;
};

/// That of this thread: the next `Context context(agent)` of the same agent is it.
/// Calls in it are made under a ContextScope of its state.
///
///     const auto next = next_context(contexts_of(agent));
///     {
///       const ContextScope scope(next->state());
///       rows = agent.to("server").async<at::Tensor>("lookup", ids);
///     }
///     const Context context(agent);  // what comes of `rows` belongs to this
std::shared_ptr<NextContext> next_context(const std::shared_ptr<Contexts>& contexts);

/// The context that a thread is to begin: that which something was done for ahead, else
/// a new one.
std::shared_ptr<ContextState> begin_context(Contexts& contexts);

}  // namespace trireme::dist_autograd
