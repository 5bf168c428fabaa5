// Takes calls of other workers: checks them, runs them, answers.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "trireme/rpc/admission.h"
#include "trireme/rpc/call_context.h"
#include "trireme/rpc/call_payload.h"
#include "trireme/rpc/call_trace.h"
#include "trireme/rpc/engine.h"
#include "trireme/rpc/executor.h"
#include "trireme/rpc/function_table.h"
#include "trireme/rpc/peer_counters.h"

namespace trireme::rpc {

/// A worker, as calls from it need it.
struct ServedPeer {
  std::shared_ptr<const WorkerInfo> info;
  std::shared_ptr<PeerCounters> counters;
};

/// Serves the functions of a table. Shared with the calls that run.
class Server : public std::enable_shared_from_this<Server> {
 public:
  struct Options {
    FunctionTable functions;
    ValueLimits limits;
    /// How large one result may be.
    std::uint64_t message_bytes = 0;
    /// By worker.
    std::vector<ServedPeer> peers;
    std::shared_ptr<CallTrace> trace;
    /// Whose calls they are: CallContext.home.
    std::weak_ptr<void> home;
    std::shared_ptr<Escort> escort{};
    /// How many threads the executor has at most, and how many calls may wait for one.
    int threads = 128;
    std::size_t queue = 65536;
  };
  Server(Options options, Executor& executor)
      : options_(std::move(options)),
        executor_(executor),
        admission_(options_.threads, options_.queue) {}
  /// Begins; calls are answered through the engine as long as it is there.
  void start(const std::shared_ptr<Engine>& engine) { engine_ = engine; }

  /// Takes calls that have come in, and never waits.
  void serve(std::vector<Incoming> calls);
  /// Calls whose functions, arguments included, are still there: they may be answered.
  std::size_t running() const { return running_.load(); }

 private:
  // One call on its way through a function.
  struct Run;
  // What calls that came together share: their answers leave together, or after a
  // moment.
  struct Batch;
  std::shared_ptr<Run> take(Incoming incoming, const std::shared_ptr<Batch>& batch);
  const ServedFunction* check(const Incoming& incoming, const CallHead& head);
  void refuse(const Incoming& incoming, Fault fault);
  void turn_away(const Incoming& incoming);
  void run_all(std::vector<std::shared_ptr<Run>> runs);
  static void work(std::shared_ptr<Run> run);
  static void start(const std::shared_ptr<Run>& run);
  static void run(const std::shared_ptr<Run>& run);
  static void meet_escort(Run& run, std::vector<at::Tensor>& arguments);
  static void end(Run& run, Returned returned, std::exception_ptr error);
  void note(const Run& run, Status status);
  void expect_own(
      const std::vector<Reference>& references, const std::string& function) const;
  void respond(
      const Incoming& incoming, Status status, Payload payload, bool hurry = true);

  Options options_;
  Executor& executor_;
  std::weak_ptr<Engine> engine_;
  Admission<Run> admission_;
  std::atomic<std::size_t> running_{0};
};

/// Serves the value behind a reference to who wants it in its wire form: every worker
/// has this function, which checks the type itself.
ServedFunction fetch_function();
inline constexpr const char* kFetchName = "trireme.fetch";

}  // namespace trireme::rpc
