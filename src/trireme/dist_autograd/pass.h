// One worker's part in one backward of a context.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "trireme/autograd/executor.h"
#include "trireme/core/deadline.h"
#include "trireme/dist_autograd/fault.h"
#include "trireme/dist_autograd/ids.h"
#include "trireme/dist_autograd/routes.h"
#include "trireme/rpc/future.h"

namespace trireme::dist_autograd {

class ContextState;
class ReceiveNode;

struct PassPlan {
  PassId id;
  /// Leave all graphs as they are, for another pass over them.
  bool keep_graph = false;
  /// Wait for the gradients of marked sends alone; else of all that there are.
  bool exact = true;
  /// A graph that all workers learn by this pass, or know already: then nothing is
  /// marked again.
  std::uint64_t route = 0;
  bool follows = false;
  /// When the worker that has begun it gives up.
  Deadline deadline = Deadline::after(Deadline::kLongest);
};

/// Runs whatever has all gradients that it waits for, whenever some come. In an exact
/// pass sends are marked first, from worker to worker; then gradients go the same way.
///
/// A worker is drawn in by the first gradient that comes, and answers that call when
/// its own part has ended and all gradients that it has sent are answered; all later
/// ones it answers at once. So the one that has begun is through when all are.
class Pass : public std::enable_shared_from_this<Pass> {
 public:
  /// By sender: what of it is reached from here.
  using Marks = std::map<rpc::WorkerId, std::vector<SendId>>;

  Pass(std::shared_ptr<ContextState> context, const PassPlan& plan);
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  const PassPlan& plan() const { return plan_; }
  const std::shared_ptr<ContextState>& context() const { return context_; }
  /// The one whose nodes this thread runs; null outside of any.
  static Pass* current();

  /// Where this pass begins, on the worker that begins it: that worker's own thread
  /// runs its part, in drive(). Gives what is reached.
  Marks begin(autograd::edge_list roots);
  /// Marks sends as waiting for gradients, and gives what is reached from them and was
  /// not before.
  Marks mark(const std::vector<SendId>& sends);
  /// Marks all sends of this worker, the first time that it is called.
  void mark_all();
  /// Marks what the plan's route says, the first time that it is called.
  /// InvalidArgument where this worker's graph is another one.
  void follow();
  /// What is marked here, and what was reached.
  Route route() const;
  /// On the worker that has begun it, before it tells others.
  void take_route(std::uint64_t number, bool follows);

  /// Takes the gradients of a send. The future is this worker's answer.
  rpc::Future<Answer> feed(const SendId& send, autograd::variable_list gradients);
  /// Gives the roots their gradients, and runs this worker's part until all workers are
  /// through; false if the deadline comes first. Throws what has gone wrong anywhere.
  bool drive(autograd::variable_list gradients);
  /// Sends gradients on: what a ReceiveNode does when it runs.
  void pass_on(const ReceiveNode& node, autograd::variable_list gradients);

  /// Whether gradients have come, or it was begun here.
  bool has_begun() const;
  /// Ends it for that reason; nothing if it has ended.
  void fail(PassFault fault);
  /// After fail(), by the one that has begun it: lets the graph go.
  void drop_graph() noexcept;
  /// The sends that still wait for gradients, a line each.
  std::vector<std::string> waiting() const;

 private:
  struct Live {
    std::uint32_t group = 0;
    bool fed = false;
  };
  struct Work {
    std::uint32_t group = 0;
    autograd::variable_list gradients;
  };
  enum class State {
    Open,
    Closed,  // all that was to be run here has run
    Ended,   // well: all that was sent is answered too
    Failed,
  };
  void mark_one(const SendId& send, autograd::edge_list edges);
  Marks new_marks();
  Route found_route() const;
  void find_ends(Marks& marks);
  void expect_own(const ReceiveNode& node) const;
  void work();
  bool take_work(Work& work, bool& close);
  void run(Work work, bool close);
  void answered(std::exception_ptr error, const Answer& answer);
  void finish(std::unique_lock<std::mutex>& lock);
  void end_if_through(std::unique_lock<std::mutex>& lock);
  bool is_driven() const;
  void expect_open() const;

  std::shared_ptr<ContextState> context_;
  PassPlan plan_;

  /// Held by those who look at the graph, or run a part of it.
  mutable std::mutex graph_;
  std::once_flag marked_;
  std::vector<SendId> ends_;
  autograd::Executor executor_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::Open;
  /// It has ended or failed, and the context knows.
  bool over_ = false;
  std::optional<PassFault> fault_;
  std::unordered_map<SendId, Live, SendHash> live_;
  std::deque<Work> queue_;
  std::size_t unfed_ = 0;
  /// Gradients that were sent on and are not answered.
  std::size_t unanswered_ = 0;
  /// A thread runs what is in the queue, or the one that has begun will.
  bool runs_ = false;
  bool driven_ = false;
  /// Of the first gradient that came.
  std::optional<rpc::Promise<Answer>> answer_;
};

}  // namespace trireme::dist_autograd
