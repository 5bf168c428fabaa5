// A process's place among workers that call each other's functions.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/net/store.h"
#include "trireme/rpc/caller.h"
#include "trireme/rpc/node_transport.h"
#include "trireme/rpc/rref.h"

namespace trireme::rpc {

struct AgentOptions {
  /// Its own among all workers: 1 to 127 letters, digits, '_', ':' and '-'.
  std::string name;
  /// What access lists of functions go by; ROLE_NAME, as `trireme run` sets it, if left
  /// out, and "default" without that.
  std::optional<std::string> role{};
  /// What the others may call here.
  FunctionTable functions{};

  /// Where all meet: open_store("env://") if left out. Several worlds of one job need
  /// stores with different prefixes, or different names here.
  std::shared_ptr<net::Store> store{};
  std::string world = "rpc";
  /// This worker among how many; the launcher's if left out.
  std::optional<int> rank{};
  std::optional<int> world_size{};
  /// How long all may take to meet.
  std::chrono::milliseconds meeting = std::chrono::minutes(5);

  /// How long a call may take that says nothing else.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  /// How long a worker may be out of reach until all that was shared with it counts as
  /// lost: its references here are struck off, calls to it fail.
  std::chrono::milliseconds lease = std::chrono::seconds(30);
  /// How many calls to one worker, and of one worker, may be under way at once. Who
  /// makes more waits.
  std::size_t calls_per_worker = 4096;
  /// And how many bytes; one call alone may have more.
  std::uint64_t bytes_per_worker = std::uint64_t{1} << 30;
  /// The threads that run functions.
  WorkerPoolOptions pool{};
  /// What is taken from other workers at most.
  ValueLimits limits{};
  /// How large one call or one result may be; the others are told, and send no more.
  std::uint64_t message_bytes = std::uint64_t{15} << 30;

  /// Goes along with all calls, on all workers alike: what makes gradients cross them,
  /// for one. Nobody if left out.
  std::shared_ptr<Escort> escort{};

  /// How many calls to keep for chrome_trace(); none if 0.
  std::size_t trace_calls = 0;

  /// How packets travel, if not as by default. Who this is, the job and its start are
  /// filled in.
  std::optional<NodeTransportOptions> transport{};
};

/// What becomes of references that are left at a shutdown.
enum class Leaks {
  Log,     ///< one line each
  Refuse,  ///< shutdown() throws Error, with a line each
};

struct ShutdownOptions {
  /// How long all workers may take until they have nothing to do any more.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  Leaks leaks = Leaks::Log;
};

/// A worker of a world. All workers are made at the same time, and meet; from then on
/// each serves its functions and calls those of the others, from any thread.
///
///     rpc::FunctionTable functions;
///     functions.add("add", [](at::Tensor a, at::Tensor b) { return a + b; });
///     rpc::Agent agent({.name = "trainer0", .functions = functions});
///     at::Tensor sum = agent.to("server").call<at::Tensor>("add", a, b);
///     agent.shutdown();
///
/// Several agents may live in one process.
class Agent {
 public:
  /// Meets the others. InvalidArgument for a name that cannot be or is taken twice;
  /// TimeoutError names those who do not come.
  explicit Agent(AgentOptions options);
  /// Without shutdown() it is an abrupt end: calls fail here and there, and the others
  /// learn that this worker has left.
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  const WorkerInfo& me() const { return core_->me(); }
  const std::vector<WorkerInfo>& workers() const { return core_->options().workers; }

  /// A caller of functions of the worker with that name or number, which may be this
  /// one.
  Caller to(const std::string& name, CallOptions options = {}) const {
    return to(core_->worker(name), options);
  }
  Caller to(WorkerId id, CallOptions options = {}) const {
    return to(core_->worker(id), options);
  }
  Caller to(const WorkerInfo& worker, CallOptions options = {}) const {
    return Caller(core_, core_->worker(worker.id).id, options);
  }

  /// A reference to a value of this worker, to be sent to others.
  template <class T>
  RRef<T> own(T value) const {
    return keep<T>(std::make_shared<T>(std::move(value)));
  }
  template <class T>
  RRef<T> keep(std::shared_ptr<T> value) const {
    return RRef<T>(core_->keep({.value = std::move(value), .type = &value_type<T>()}));
  }

  /// Waits until no worker has anything to do: no calls, no messages on their way; then
  /// says goodbye. It serves until then. All workers must call it. TimeoutError names
  /// the workers that are late and the calls that this one waits for; PeerError names
  /// one that is gone. Whatever it throws, the agent has ended then.
  void shutdown(ShutdownOptions options = {});
  /// Ends at once; calls that are under way fail.
  void abort(const std::string& why);

  /// What has passed between this worker and another.
  const PeerCounters& counters(const WorkerInfo& worker) const {
    return core_->counters(worker.id);
  }
  NodeTransportStats transport_stats() const { return transport_->stats(); }
  WorkerPoolFigures pool_figures() const { return core_->pool().figures(); }
  /// The last calls (AgentOptions::trace_calls) as a Chrome trace: see call_trace.h.
  std::string chrome_trace(const comm::ClockOffset& clock = {}) const {
    return to_chrome_trace(core_->trace()->spans(), workers(), me().id, clock);
  }
  /// The calls that wait for their end, a line each.
  std::vector<std::string> outstanding() const { return core_->engine().outstanding(); }
  /// References between workers that this one knows of, a line each.
  std::vector<std::string> references() const { return core_->left(); }

  /// For what is built upon agents.
  const std::shared_ptr<AgentCore>& core() const { return core_; }

 private:
  void end(const std::string& why, const Deadline& deadline);
  // Empty if it is not.
  std::string why_gone(WorkerId worker) const;
  void give_up(const std::string& why) noexcept;

  // Where this world comes to its end: what one before it has left there is not its
  // own.
  std::unique_ptr<net::PrefixStore> store_;
  std::unique_ptr<NodeTransport> transport_;
  std::shared_ptr<AgentCore> core_;
  bool ended_ = false;
};

/// The agent that serves the call which this thread works for: what a function calls
/// others by. InvalidArgument outside of any call.
///
///     functions.add("forward", [](at::Tensor x) {
///       return rpc::this_agent().to("next").call<at::Tensor>("forward", x);
///     });
class ThisAgent {
 public:
  explicit ThisAgent(std::shared_ptr<AgentCore> core) : core_(std::move(core)) {}
  const WorkerInfo& me() const { return core_->me(); }
  Caller to(const std::string& name, CallOptions options = {}) const {
    return Caller(core_, core_->worker(name).id, options);
  }
  Caller to(WorkerId id, CallOptions options = {}) const {
    return Caller(core_, core_->worker(id).id, options);
  }
  /// A reference to a value of this worker; see KeptValue for the guard.
  template <class T>
  RRef<T> own(T value, std::shared_ptr<std::shared_mutex> guard = nullptr) const {
    return RRef<T>(core_->keep(
        {.value = std::make_shared<T>(std::move(value)),
         .type = &value_type<T>(),
         .guard = std::move(guard)}));
  }
  /// For what is built upon agents.
  const std::shared_ptr<AgentCore>& core() const { return core_; }

 private:
  std::shared_ptr<AgentCore> core_;
};
ThisAgent this_agent();

}  // namespace trireme::rpc
