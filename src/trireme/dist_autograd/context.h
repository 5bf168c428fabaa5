// Backward through remote calls. The module's main type.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/dist_autograd/contexts.h"
#include "trireme/dist_autograd/ids.h"

namespace trireme::dist_autograd {

enum class Mode {
  /// Finds out first what the losses lead to, on all workers: what nobody has used
  /// costs nothing, and nothing waits for it.
  Exact,
  /// Takes it that everything was used, and saves a round of messages. A result that
  /// was not used is an error at the deadline, which names it.
  Fast,
};

struct BackwardOptions {
  Mode mode = Mode::Exact;
  /// Leave all graphs as they are, for another backward over them.
  bool keep_graph = false;
  /// In exact mode: where this worker's calls were the same, and used alike, in an
  /// earlier backward, nothing is found out again. It is an error by name, and not a
  /// wrong number, where another worker does something else than then.
  bool static_graph = false;
  /// How long all workers may take; no longer than is left to the call inside which
  /// this is.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

/// A context as any worker that has a part in it sees it, cheap to copy.
class ContextView {
 public:
  explicit ContextView(std::shared_ptr<ContextState> state)
      : state_(std::move(state)) {}

  const ContextId& id() const { return state_->id(); }
  /// What backward has added up for a parameter of this worker; undefined if nothing.
  at::Tensor gradient(const at::Tensor& parameter) const {
    return state_->gradients().get(parameter);
  }
  /// All parameters of this worker that have a gradient, with it, in no order.
  std::vector<std::pair<at::Tensor, at::Tensor>> gradients() const {
    return state_->gradients().all();
  }

  /// Computes gradients of all parameters, on all workers, that the losses lead to, and
  /// adds them to those of the context; `.grad` is not touched. Losses have one element
  /// each. Throws what has gone wrong anywhere, with the worker's name: PeerError for a
  /// worker that is gone, TimeoutError, rpc::RemoteError; the gradients are of no use
  /// then.
  void backward(
      const std::vector<at::Tensor>& losses, const BackwardOptions& options = {}) const;

  const std::shared_ptr<ContextState>& state() const { return state_; }

 private:
  std::shared_ptr<ContextState> state_;
};

/// While it lives, calls of this thread and all that follows from them are in it, and
/// backward() goes through them:
///
///     dist_autograd::Context context(agent);
///     at::Tensor h = agent.to("server").call<at::Tensor>("forward", x);
///     context.backward({loss_of(h)});
///     at::Tensor dw = context.gradient(w);  // of a parameter of this worker
///
/// With it all gradients go, on all workers. One at a time on a thread, but any number
/// of threads may have one each; `ContextScope scope(context.state())` has another
/// thread work in this one.
class Context : public ContextView {
 public:
  explicit Context(const rpc::Agent& agent);
  /// The same in a function that was called from elsewhere: `Context(this_agent())`.
  explicit Context(const rpc::ThisAgent& agent);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

 private:
  explicit Context(std::shared_ptr<Contexts> contexts);

  std::shared_ptr<Contexts> contexts_;
  ContextScope scope_;
};

/// The context of the call that this thread works for, or of its Context;
/// InvalidArgument outside of any.
ContextView this_context();

/// The context of that id, on a worker that has a part in it; Error if it has ended.
ContextView context_of(const rpc::Agent& agent, const ContextId& id);

}  // namespace trireme::dist_autograd
