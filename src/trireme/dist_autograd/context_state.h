// What one worker knows of one context.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trireme/autograd/node.h"
#include "trireme/dist_autograd/gradients.h"
#include "trireme/dist_autograd/ids.h"
#include "trireme/dist_autograd/pass.h"
#include "trireme/dist_autograd/routes.h"

namespace trireme::rpc {
class AgentCore;
}

namespace trireme::dist_autograd {

/// Shared by the calls and passes of the context, and by those who look at its
/// gradients; all of it is safe for threads.
class ContextState : public std::enable_shared_from_this<ContextState> {
 public:
  ContextState(
      ContextId id,
      const std::weak_ptr<rpc::AgentCore>& core,
      std::shared_ptr<Routes> routes);

  const ContextId& id() const { return id_; }
  Gradients& gradients() { return gradients_; }
  /// What this worker has learnt in all contexts.
  Routes& routes() const { return *routes_; }
  /// This worker's agent; Error after its end.
  std::shared_ptr<rpc::AgentCore> core() const;
  rpc::WorkerId worker() const { return worker_; }
  std::string worker_name() const;

  /// Names the next call of that worker. Error if the context has ended.
  CallId next_call(rpc::WorkerId callee, const std::string& function);
  /// One number for all calls of this worker so far: where others were made, or in
  /// another order, it is another.
  std::uint64_t calls() const;
  /// A call that has come in.
  void meet(rpc::WorkerId caller);
  /// The workers that calls went to or came from.
  std::vector<rpc::WorkerId> peers() const;

  /// Remembers tensors that leave, if any of them needs a gradient; `function` is whose
  /// call it is, for errors.
  void add_send(
      const SendId& send,
      const std::string& function,
      const std::vector<at::Tensor>& tensors);
  /// They have not arrived.
  void drop_send(const SendId& send) noexcept;
  std::vector<std::pair<SendId, autograd::edge_list>> sends() const;
  /// InvalidArgument if there is none: it needed no gradient, or a pass has freed it.
  autograd::edge_list edges_of(const SendId& send) const;
  /// The same; none if there is none.
  std::optional<autograd::edge_list> find_edges(const SendId& send) const;
  /// A send in words: "the result of mul() that went from worker1 to worker0".
  std::string text_of(const SendId& send) const;

  /// The pass of that plan, which begins with the first call of this. Error if another
  /// one runs, if it has ended, or the context has.
  std::shared_ptr<Pass> pass(const PassPlan& plan);
  /// The pass that runs; null if none does.
  std::shared_ptr<Pass> running_pass() const;
  /// Told by each pass at its end, good or bad.
  void pass_ended(Pass& pass, const std::vector<SendId>& fed);

  /// Ends it, on this worker: a pass that runs fails, and all that it holds goes.
  void end(const std::string& why);
  bool ended() const;

 private:
  struct Send {
    autograd::edge_list edges;
    std::string function;
  };
  void expect_open() const;

  const ContextId id_;
  std::weak_ptr<rpc::AgentCore> core_;
  const rpc::WorkerId worker_;
  std::shared_ptr<Routes> routes_;
  Gradients gradients_;

  mutable std::mutex mutex_;
  bool ended_ = false;
  std::map<rpc::WorkerId, std::uint64_t> next_ordinal_;
  std::uint64_t calls_ = 0;
  std::set<rpc::WorkerId> peers_;
  std::unordered_map<SendId, Send, SendHash> sends_;
  std::shared_ptr<Pass> pass_;
  /// By worker that begins: its passes up to this one have ended here.
  std::map<rpc::WorkerId, std::uint64_t> ended_passes_;
};

}  // namespace trireme::dist_autograd
