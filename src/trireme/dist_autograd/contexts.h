// The contexts of one worker, and how gradients go along with its calls.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/dist_autograd/context_state.h"
#include "trireme/rpc/agent.h"
#include "trireme/rpc/escort.h"

namespace trireme::dist_autograd {

/// Options of an agent whose calls gradients cross: all workers of a world need it.
///
///     rpc::Agent agent(dist_autograd::with_gradients({.name = "trainer0"}));
///     dist_autograd::Context context(agent);
rpc::AgentOptions with_gradients(rpc::AgentOptions options);

/// All contexts that this worker has a part in. A context is made here by the first
/// call that comes in it, and goes when its creator says so, or is gone itself: then
/// nothing that comes late makes it anew.
class Contexts final : public rpc::Escort,
                       public std::enable_shared_from_this<Contexts> {
 public:
  Contexts();

  /// A new context of this worker.
  std::shared_ptr<ContextState> create();
  /// That context; Error if this worker has no part in it, or it has ended.
  std::shared_ptr<ContextState> find(const ContextId& id) const;
  /// The same; null if there is none.
  std::shared_ptr<ContextState> find_open(const ContextId& id) const;
  /// The same; null if this worker has no part in it, or none yet. Error if it has
  /// ended.
  std::shared_ptr<ContextState> find_met(const ContextId& id) const;
  /// Ends it here, and tells the workers that calls in it went to or came from, except
  /// the one that has told this one.
  void end(const ContextId& id, rpc::WorkerId told_by = -1) noexcept;
  /// How many are open here.
  std::size_t size() const;
  /// The number of the next backward that this worker begins.
  std::uint64_t next_pass() { return next_pass_.fetch_add(1); }
  /// Which table of that name this worker makes now, counted from 1.
  std::uint64_t next_table(const std::string& name);

  void start(std::weak_ptr<rpc::AgentCore> core) override;
  std::shared_ptr<rpc::CallEscort> leave(
      rpc::WorkerId to,
      const std::string& function,
      const std::vector<at::Tensor>& arguments,
      std::string& note) override;
  std::shared_ptr<rpc::CallEscort> arrive(
      rpc::WorkerId from,
      const std::string& function,
      std::string_view note,
      std::vector<at::Tensor>& arguments) override;
  void forget(rpc::WorkerId worker, const std::string& why) noexcept override;
  /// Also called whenever a worker is gone, by a thread that must not wait. For who is
  /// there before the agent begins.
  using Forget = std::function<void(
      const std::shared_ptr<rpc::AgentCore>&, rpc::WorkerId, const std::string& why)>;
  void on_forget(Forget also) { also_forget_ = std::move(also); }

 private:
  using StatePointer = std::shared_ptr<ContextState>;
  // What is known of one creator's contexts. Its numbers only grow, and all below
  // `floor` have ended.
  struct Creator {
    mutable std::mutex mutex;
    std::map<std::uint64_t, StatePointer> open;
    std::uint64_t floor = 0;
    // At or above the floor.
    std::set<std::uint64_t> ended;
    std::uint64_t highest = 0;
  };
  Creator& of(rpc::WorkerId creator) const;
  StatePointer join(const ContextId& id, std::uint64_t floor);
  std::uint64_t floor_of(rpc::WorkerId creator) const;
  static std::vector<StatePointer> raise_floor(Creator& creator, std::uint64_t floor);

  std::weak_ptr<rpc::AgentCore> core_;
  std::shared_ptr<Routes> routes_ = std::make_shared<Routes>();
  std::atomic<std::uint64_t> next_number_;
  std::atomic<std::uint64_t> next_pass_{1};
  std::mutex tables_mutex_;
  std::map<std::string, std::uint64_t> tables_;
  rpc::WorkerId me_ = -1;
  Forget also_forget_;
  std::vector<std::unique_ptr<Creator>> creators_;  // one for each worker
};

/// The contexts of an agent; InvalidArgument for one that was made without them.
std::shared_ptr<Contexts> contexts_of(const rpc::Agent& agent);
std::shared_ptr<Contexts> contexts_of(const rpc::ThisAgent& agent);

/// The context that this thread works in: that of a Context here, else that of the call
/// that it works for; null outside of any.
std::shared_ptr<ContextState> current_context();

/// This thread works in a context as long as the scope lives.
class ContextScope {
 public:
  explicit ContextScope(std::shared_ptr<ContextState> context);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  std::shared_ptr<ContextState> former_;
};

}  // namespace trireme::dist_autograd
