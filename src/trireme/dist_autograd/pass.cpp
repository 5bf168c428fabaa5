#include "trireme/dist_autograd/pass.h"

#include <algorithm>
#include <utility>

#include <torch/csrc/autograd/variable.h>

#include "trireme/core/error.h"
#include "trireme/core/list_names.h"
#include "trireme/dist_autograd/context_state.h"
#include "trireme/dist_autograd/messages.h"
#include "trireme/dist_autograd/receive_node.h"
#include "trireme/rpc/blocking.h"

namespace trireme::dist_autograd {
namespace {

thread_local Pass* current_pass = nullptr;

// The group of the roots, on the worker that begins.
constexpr std::uint32_t kRoots = 0;

}  // namespace

Pass::Pass(std::shared_ptr<ContextState> context, const PassPlan& plan)
    : context_(std::move(context)), plan_(plan) {
  executor_.open({.store = &context_->gradients(), .keep_graph = plan.keep_graph});
}

Pass* Pass::current() {
  return current_pass;
}

Pass::Marks Pass::begin(autograd::edge_list roots) {
  const std::lock_guard graph(graph_);
  executor_.add_roots(std::move(roots));
  {
    const std::lock_guard lock(mutex_);
    driven_ = runs_ = true;
    ++unfed_;
  }
  return new_marks();
}

Pass::Marks Pass::mark(const std::vector<SendId>& sends) {
  const std::lock_guard graph(graph_);
  expect_open();
  for (const SendId& send : sends)
    mark_one(send, context_->edges_of(send));
  return new_marks();
}

void Pass::mark_all() {
  std::call_once(marked_, [&] {
    const std::lock_guard graph(graph_);
    for (auto& [send, edges] : context_->sends())
      mark_one(send, std::move(edges));
  });
}

void Pass::follow() {
  std::call_once(marked_, [&] {
    const auto known = context_->routes().find({plan_.id.root, plan_.route});
    const std::lock_guard graph(graph_);
    Marks marks;
    if (known)
      for (const SendId& send : known->sends)
        if (auto edges = context_->find_edges(send))
          mark_one(send, *std::move(edges));
    find_ends(marks);
    if (known && found_route() == *known)
      return;
    throw InvalidArgument(text(
        "[dist_autograd] expected the graph of an earlier backward on worker ",
        context_->worker_name(),
        ", got another one; leave static_graph off where it depends on data what is "
        "called and used"));
  });
}

void Pass::take_route(std::uint64_t number, bool follows) {
  plan_.route = number;
  plan_.follows = follows;
}

Route Pass::route() const {
  const std::lock_guard graph(graph_);
  return found_route();
}

// With graph_ held.
Route Pass::found_route() const {
  Route route{.sends = {}, .ends = ends_};
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [send, live] : live_)
      route.sends.push_back(send);
  }
  std::sort(route.sends.begin(), route.sends.end());
  std::sort(route.ends.begin(), route.ends.end());
  return route;
}

// With graph_ held.
void Pass::mark_one(const SendId& send, autograd::edge_list edges) {
  const std::lock_guard lock(mutex_);
  const auto [found, fresh] = live_.try_emplace(send);
  if (!fresh)
    return;
  found->second.group = executor_.add_roots(std::move(edges));
  ++unfed_;
}

// With graph_ held. What this worker has sent to itself is marked at once.
Pass::Marks Pass::new_marks() {
  Marks marks;
  find_ends(marks);
  while (const auto own = marks.extract(context_->worker())) {
    for (const SendId& send : own.mapped())
      mark_one(send, context_->edges_of(send));
    find_ends(marks);
  }
  return marks;
}

void Pass::find_ends(Marks& marks) {
  executor_.for_each_new_end([&](autograd::Node& node) {
    const auto* receive = dynamic_cast<const ReceiveNode*>(&node);
    if (receive == nullptr)
      return;
    expect_own(*receive);
    ends_.push_back(receive->send());
    marks[receive->sender()].push_back(receive->send());
  });
}

void Pass::expect_own(const ReceiveNode& node) const {
  const auto other = node.context();
  if (other == context_)
    return;
  throw InvalidArgument(text(
      "[dist_autograd] expected tensors of context ",
      to_string(context_->id()),
      ", got one that came in ",
      other ? "context " + to_string(other->id()) : "a context that has ended",
      "; detach it, or call for it again inside this context"));
}

rpc::Future<Answer> Pass::feed(const SendId& send, autograd::variable_list gradients) {
  std::unique_lock lock(mutex_);
  if (state_ == State::Failed)
    return rpc::ready_future(Answer(fault_));
  const auto found = live_.find(send);
  if (found == live_.end() || found->second.fed)
    throw InvalidArgument(text(
        "[dist_autograd] expected gradients for ",
        context_->text_of(send),
        found == live_.end() ? " to be announced before they come"
                             : " once in a backward",
        ", got others; report this"));
  found->second.fed = true;
  --unfed_;
  queue_.push_back({found->second.group, std::move(gradients)});
  rpc::Future<Answer> answer = [&] {
    if (driven_ || answer_)
      return rpc::ready_future(Answer());
    return answer_.emplace().future();
  }();
  if (driven_)
    changed_.notify_all();
  if (std::exchange(runs_, true))
    return answer;
  lock.unlock();
  work();
  return answer;
}

bool Pass::drive(autograd::variable_list gradients) {
  std::unique_lock lock(mutex_);
  queue_.push_front({kRoots, std::move(gradients)});
  --unfed_;
  while (true) {
    lock.unlock();
    work();
    lock.lock();
    const auto something = [&] { return over_ || !queue_.empty(); };
    if (!something()) {
      lock.unlock();
      const rpc::Blocking blocking;
      lock.lock();
      if (!changed_.wait_for(lock, plan_.deadline.remaining(), something))
        return false;
    }
    if (!over_)
      continue;
    lock.unlock();
    if (!fault_)
      return true;
    drop_graph();
    throw_fault(*fault_);
  }
}

// Runs what is in the queue, and the end if that was all.
void Pass::work() {
  Work work;
  bool close = false;
  while (take_work(work, close))
    run(std::move(work), close);
}

bool Pass::take_work(Work& work, bool& close) {
  std::unique_lock lock(mutex_);
  close = queue_.empty() && unfed_ == 0;
  const bool done = state_ != State::Open || (queue_.empty() && !close);
  if (done) {
    runs_ = driven_;  // then others leave the queue to the one that has begun
    if (state_ == State::Failed) {
      lock.unlock();
      drop_graph();
    }
    return false;
  }
  if (!close) {
    work = std::move(queue_.front());
    queue_.pop_front();
  }
  return true;
}

void Pass::run(Work work, bool close) {
  Pass* const former = std::exchange(current_pass, this);
  try {
    if (close) {
      const rpc::Blocking blocking;  // hooks may wait for other ranks
      const std::lock_guard graph(graph_);
      executor_.close();
    } else {
      const std::lock_guard graph(graph_);
      executor_.feed(work.group, std::move(work.gradients));
    }
    current_pass = former;
  } catch (...) {
    current_pass = former;
    return fail(fault_of(context_->worker_name(), std::current_exception()));
  }
  std::unique_lock lock(mutex_);
  if (close && state_ == State::Open) {
    state_ = State::Closed;
    end_if_through(lock);
  }
}

void Pass::pass_on(const ReceiveNode& node, autograd::variable_list gradients) {
  expect_own(node);
  if (node.sender() == context_->worker()) {
    feed(node.send(), std::move(gradients));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    ++unanswered_;
  }
  send_gradients(*context_, plan_, node.sender(), node.send(), std::move(gradients))
      .handle([pass = shared_from_this()](const rpc::Future<Answer>& done) {
        const std::exception_ptr error = done.error();
        pass->answered(error, error ? Answer() : done.get());
      });
}

void Pass::answered(std::exception_ptr error, const Answer& answer) {
  if (error) {
    PassFault fault = fault_of(context_->worker_name(), error);
    // Its deadline is that of the pass, and who drives that knows what was late.
    if (fault.late && is_driven())
      return;
    return fail(std::move(fault));
  }
  if (answer)
    return fail(*answer);
  std::unique_lock lock(mutex_);
  --unanswered_;
  end_if_through(lock);
}

// Gives the lock back.
void Pass::end_if_through(std::unique_lock<std::mutex>& lock) {
  if (state_ != State::Closed || unanswered_ > 0)
    return lock.unlock();
  state_ = State::Ended;
  finish(lock);
}

// Once, after the state has become Ended or Failed. Whoever waits for the end finds the
// context free for the next pass. Gives the lock back.
void Pass::finish(std::unique_lock<std::mutex>& lock) {
  auto answer = std::exchange(answer_, std::nullopt);
  std::vector<SendId> freed;
  if (!plan_.keep_graph)  // what has run cannot run again
    for (const auto& [send, live] : live_)
      if (live.fed)
        freed.push_back(send);
  const bool learns = state_ == State::Ended && plan_.route != 0 && !plan_.follows;
  lock.unlock();
  if (learns)
    context_->routes().learn({plan_.id.root, plan_.route}, route());
  context_->pass_ended(*this, freed);
  lock.lock();
  over_ = true;
  changed_.notify_all();
  lock.unlock();
  if (answer)
    answer->set_value(Answer(fault_));
}

void Pass::fail(PassFault fault) {
  std::unique_lock lock(mutex_);
  if (state_ == State::Ended || state_ == State::Failed)
    return;
  state_ = State::Failed;
  fault_ = std::move(fault);
  queue_.clear();
  const bool runs = std::exchange(runs_, true);
  finish(lock);
  if (!runs)
    drop_graph();  // else who runs it does
}

void Pass::drop_graph() noexcept {
  std::string why;
  {
    const std::lock_guard lock(mutex_);
    if (fault_)
      why = text("on worker ", fault_->worker, ": ", fault_->text);
  }
  const std::lock_guard graph(graph_);
  executor_.drop(why);
}

bool Pass::is_driven() const {
  const std::lock_guard lock(mutex_);
  return driven_;
}

bool Pass::has_begun() const {
  const std::lock_guard lock(mutex_);
  return driven_ || answer_.has_value();
}

void Pass::expect_open() const {
  const std::lock_guard lock(mutex_);
  if (state_ == State::Failed)
    throw_fault(*fault_);
}

std::vector<std::string> Pass::waiting() const {
  std::vector<SendId> sends;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [send, live] : live_)
      if (!live.fed)
        sends.push_back(send);
  }
  std::sort(sends.begin(), sends.end());
  std::vector<std::string> lines;
  for (const SendId& send : sends)
    lines.push_back(context_->text_of(send));
  return lines;
}

}  // namespace trireme::dist_autograd
