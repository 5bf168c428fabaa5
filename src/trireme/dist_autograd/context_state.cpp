#include "trireme/dist_autograd/context_state.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <torch/csrc/autograd/variable.h>

#include "trireme/core/error.h"
#include "trireme/core/mix.h"
#include "trireme/rpc/agent_core.h"

namespace trireme::dist_autograd {

ContextState::ContextState(
    ContextId id,
    const std::weak_ptr<rpc::AgentCore>& core,
    std::shared_ptr<Routes> routes)
    : id_(id),
      core_(core),
      worker_(this->core()->me().id),
      routes_(std::move(routes)),
      gradients_("context " + to_string(id)) {}

std::shared_ptr<rpc::AgentCore> ContextState::core() const {
  if (auto core = core_.lock())
    return core;
  throw Error(
      "[dist_autograd] expected a context whose agent runs, got one whose agent has "
      "ended; end all contexts first");
}

std::string ContextState::worker_name() const {
  const auto core = core_.lock();
  return core ? core->me().name : "unknown";
}

void ContextState::expect_open() const {
  if (ended_)
    throw Error(text(
        "[dist_autograd] expected an open context, got ",
        to_string(id_),
        ", which has ended; keep the context until all its calls and passes are "
        "through"));
}

CallId ContextState::next_call(rpc::WorkerId callee, const std::string& function) {
  const std::lock_guard lock(mutex_);
  expect_open();
  peers_.insert(callee);
  const CallId call{worker_, callee, next_ordinal_[callee]++};
  // Threads may call different workers in any order: a sum does not tell.
  calls_ +=
      mix(std::hash<std::string>()(function) + kMixStep * SendHash()({call, false}));
  return call;
}

void ContextState::meet(rpc::WorkerId caller) {
  const std::lock_guard lock(mutex_);
  expect_open();
  peers_.insert(caller);
}

std::uint64_t ContextState::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

std::vector<rpc::WorkerId> ContextState::peers() const {
  const std::lock_guard lock(mutex_);
  return {peers_.begin(), peers_.end()};
}

void ContextState::add_send(
    const SendId& send,
    const std::string& function,
    const std::vector<at::Tensor>& tensors) {
  autograd::edge_list edges;
  for (const at::Tensor& tensor : tensors)
    if (autograd::needs_gradient(tensor))
      edges.push_back(torch::autograd::impl::gradient_edge(tensor));
  if (edges.empty())
    return;
  const std::lock_guard lock(mutex_);
  expect_open();
  sends_.insert_or_assign(send, Send{std::move(edges), function});
}

void ContextState::drop_send(const SendId& send) noexcept {
  Send dropped;  // after the lock, since a graph may go with it
  const std::lock_guard lock(mutex_);
  if (const auto found = sends_.find(send); found != sends_.end()) {
    dropped = std::move(found->second);
    sends_.erase(found);
  }
}

std::vector<std::pair<SendId, autograd::edge_list>> ContextState::sends() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<SendId, autograd::edge_list>> sends;
  for (const auto& [id, send] : sends_)
    sends.emplace_back(id, send.edges);
  return sends;
}

std::optional<autograd::edge_list> ContextState::find_edges(const SendId& send) const {
  const std::lock_guard lock(mutex_);
  expect_open();
  const auto found = sends_.find(send);
  return found == sends_.end() ? std::nullopt : std::optional(found->second.edges);
}

autograd::edge_list ContextState::edges_of(const SendId& send) const {
  if (auto edges = find_edges(send))
    return *std::move(edges);
  throw InvalidArgument(text(
      "[dist_autograd] expected the graph of call ",
      send.call.ordinal,
      " between worker ",
      send.call.caller,
      " and worker ",
      send.call.callee,
      " of context ",
      to_string(id_),
      ", got none: a pass has gone over it and freed it; set keep_graph in that one"));
}

std::string ContextState::text_of(const SendId& send) const {
  std::string function;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = sends_.find(send); found != sends_.end())
      function = found->second.function;
  }
  const auto core = this->core();
  const auto& caller = core->worker(send.call.caller).name;
  const auto& callee = core->worker(send.call.callee).name;
  return text(
      send.answer ? "the result of " : "the arguments of ",
      function,
      "(), which worker ",
      send.answer ? callee : caller,
      " has sent to worker ",
      send.answer ? caller : callee);
}

std::shared_ptr<Pass> ContextState::pass(const PassPlan& plan) {
  std::shared_ptr<Pass> stale;
  {
    const std::lock_guard lock(mutex_);
    expect_open();
    if (pass_ && pass_->plan().id == plan.id)
      return pass_;
    if (ended_passes_[plan.id.root] >= plan.id.number)
      throw Error(text(
          "[dist_autograd] expected a backward that goes on, got one of context ",
          to_string(id_),
          " that has ended here; look at its error on the worker that began it"));
    if (pass_ && (pass_->plan().id.root != plan.id.root || pass_->has_begun()))
      throw InvalidArgument(text(
          "[dist_autograd] expected one backward at a time in context ",
          to_string(id_),
          ", got one of worker ",
          core()->worker(plan.id.root).name,
          " while one of worker ",
          core()->worker(pass_->plan().id.root).name,
          " runs; let one end before the next, or use two contexts"));
    // What was marked for a pass that its worker has given up.
    stale = std::exchange(pass_, std::make_shared<Pass>(shared_from_this(), plan));
    if (!stale)
      return pass_;
  }
  stale->fail(
      {.worker = worker_name(),
       .type = "trireme::Error",
       .text = "the next backward has begun"});
  return pass(plan);
}

std::shared_ptr<Pass> ContextState::running_pass() const {
  const std::lock_guard lock(mutex_);
  return pass_;
}

void ContextState::pass_ended(Pass& pass, const std::vector<SendId>& fed) {
  std::vector<Send> freed;  // after the lock
  std::shared_ptr<Pass> ended;
  const std::lock_guard lock(mutex_);
  std::uint64_t& number = ended_passes_[pass.plan().id.root];
  number = std::max(number, pass.plan().id.number);
  if (pass_.get() == &pass)
    ended = std::move(pass_);
  for (const SendId& send : fed)
    if (const auto found = sends_.find(send); found != sends_.end()) {
      freed.push_back(std::move(found->second));
      sends_.erase(found);
    }
}

void ContextState::end(const std::string& why) {
  std::unordered_map<SendId, Send, SendHash> sends;
  std::shared_ptr<Pass> pass;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true))
      return;
    sends.swap(sends_);
    pass = pass_;
  }
  if (pass)
    pass->fail({.worker = worker_name(), .type = "trireme::Error", .text = why});
  gradients_.clear();
}

bool ContextState::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

}  // namespace trireme::dist_autograd
