// The inside of an agent, shared with the calls and references that it has made.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "trireme/rpc/call_trace.h"
#include "trireme/rpc/engine.h"
#include "trireme/rpc/flight_note.h"
#include "trireme/rpc/function_table.h"
#include "trireme/rpc/peer_counters.h"
#include "trireme/rpc/server.h"
#include "trireme/rpc/worker_pool.h"

namespace trireme::rpc {

/// How a call is made.
struct CallOptions {
  /// How long its end may take; the agent's own time limit if not given, and never
  /// longer than is left to the call inside which it is made.
  std::optional<std::chrono::milliseconds> timeout{};
  /// It may run twice: where it may have been lost, it is sent again.
  bool idempotent = false;
  /// When it leaves if its caller does not wait for it, as one by async().
  Haste haste = Haste::Gather;
};

struct AgentCoreOptions {
  std::vector<WorkerInfo> workers;
  WorkerId me = 0;
  FunctionTable functions;
  WorkerPoolOptions pool;
  ValueLimits limits;
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  std::chrono::milliseconds lease = std::chrono::seconds(30);
  std::size_t calls_per_worker = 4096;
  std::uint64_t bytes_per_worker = std::uint64_t{1} << 30;
  std::size_t trace_calls = 0;
  /// For the names of records.
  std::string job;
  /// Goes along with all calls; null for nobody.
  std::shared_ptr<Escort> escort{};
};

/// Ties a call to the one inside which it is made: cancelled with that, until it ends.
class CallTie {
 public:
  /// Keeps the registration, unless the call has ended meanwhile.
  void keep(CancelRegistration registration);
  /// The call has ended.
  void end();

 private:
  std::mutex mutex_;
  bool ended_ = false;
  CancelRegistration registration_;
};

/// One call, from its start to its end. Its future lies in what is made of it.
class CallEnd : public Completion {
 public:
  void finish(Outcome outcome) final;
  std::string text() const final;

 protected:
  /// Takes the result, or the error.
  virtual void take(Payload payload, const ValueLimits& limits) = 0;
  virtual void fail(std::exception_ptr error) = 0;
  /// Who goes with it: shown the result's tensors by take(), once they are decoded.
  std::shared_ptr<CallEscort> escort_;

 private:
  friend class AgentCore;
  std::shared_ptr<class AgentCore> core_;
  WorkerId to_ = 0;
  std::uint64_t span_ = 0;
  std::uint64_t bytes_ = 0;  // of its request
  std::string function_;
  const Signature* signature_ = nullptr;
  std::uint64_t trace_ = 0;
  Time start_{};
  Deadline deadline_ = Deadline::after(Deadline::kLongest);
  std::shared_ptr<CallTie> tie_;  // to the call inside which this one is made
  void note(Status status, Time::duration time);
  std::exception_ptr error_of(const Outcome& outcome) const;
};

/// What calls a call is made of.
struct CallPlan {
  WorkerId to = 0;
  std::string function;
  const Signature* signature = nullptr;
  Values arguments;
  CallOptions options;
  Reference creates;
  Haste haste = Haste::Gather;
};

class AgentCore : public std::enable_shared_from_this<AgentCore> {
 public:
  explicit AgentCore(AgentCoreOptions options);
  void start(Transport& transport);

  /// Sends a call; its number for cancel(). It waits for room where too many calls to
  /// that worker are under way.
  std::uint64_t call(CallPlan plan, std::unique_ptr<CallEnd> end);

  /// The worker of that name or number; InvalidArgument if there is none.
  const WorkerInfo& worker(const std::string& name) const;
  const WorkerInfo& worker(WorkerId id) const;
  const WorkerInfo& me() const { return worker(options_.me); }

  /// Refuses all calls from now on.
  void close(const std::string& why);
  /// Ends all at once.
  void stop(const std::string& why);

  /// A place for a value of this worker.
  Reference keep(KeptValue value);
  /// Writes down what waits, since a call is late.
  void note_late(const std::string& call);

  /// References between workers that this one knows of, a line each.
  std::vector<std::string> left() const;

  /// Whether nothing is under way here.
  bool idle() const { return server_->running() == 0 && engine_->load().idle(); }

  Engine& engine() { return *engine_; }
  WorkerPool& pool() { return pool_; }
  const AgentCoreOptions& options() const { return options_; }
  const std::shared_ptr<CallTrace>& trace() const { return trace_; }
  PeerCounters& counters(WorkerId worker) {
    return *counters_.at(static_cast<std::size_t>(worker));
  }

 private:
  friend class CallEnd;
  // Of one worker: how many calls to it are under way, of how many bytes, and how many
  // wait for room.
  struct Room {
    std::atomic<std::size_t> taken{0};
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::size_t> waiting{0};
  };
  std::uint64_t send(CallPlan plan, std::unique_ptr<CallEnd> end);
  std::string describe(ObjectId id) const;
  Request pack(CallPlan& plan, CallEnd& end) const;
  bool try_enter(Room& room, std::uint64_t bytes) const;
  void enter(WorkerId to, std::uint64_t bytes, const Deadline& deadline);
  void leave(WorkerId to, std::uint64_t bytes);
  void expect_open() const;

  AgentCoreOptions options_;
  std::shared_ptr<CallTrace> trace_ = std::make_shared<CallTrace>();
  FlightNotes notes_;
  std::vector<std::shared_ptr<PeerCounters>> counters_;
  WorkerPool pool_;
  std::shared_ptr<Server> server_;
  std::shared_ptr<Engine> engine_;
  std::atomic<bool> closed_{false};
  std::atomic<std::uint64_t> next_span_{1};

  std::vector<Room> rooms_;
  mutable std::mutex mutex_;
  std::condition_variable left_room_;
  std::string why_closed_;
};

/// The agent that a reference belongs to; Error after its end.
std::shared_ptr<AgentCore> core_of(const Reference& reference);

}  // namespace trireme::rpc
