#include "trireme/dist_autograd/distributed_optimizer.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <utility>

#include <ATen/ATen.h>

#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/dist_autograd/step_commit.h"

namespace trireme::dist_autograd {

namespace {

namespace calls = optimizer_calls;
using std::chrono::milliseconds;

void check_lr(double lr) {
  if (!(lr > 0) || !std::isfinite(lr))
    throw InvalidArgument(text(
        "[dist_autograd] expected a learning rate above 0 and finite, got ",
        lr,
        "; leave parameters out that are not to be stepped"));
}

void check_options(const DistributedOptimizerOptions& options) {
  check(options.kind);
  if (options.max_norm && !(*options.max_norm > 0))
    throw InvalidArgument(text(
        "[dist_autograd] expected a max_norm above 0, got ",
        *options.max_norm,
        "; leave it out for gradients as they are"));
  if (options.timeout <= milliseconds(0))
    throw InvalidArgument(text(
        "[dist_autograd] expected a timeout above 0 ms, got ",
        options.timeout.count(),
        "; leave it out for a minute"));
}

// Of all, in order; the first error only when all have ended, so that nothing goes on
// behind the caller's back.
template <class T>
std::vector<T> gather(std::vector<rpc::Future<T>> futures) {
  std::exception_ptr first;
  for (const rpc::Future<T>& future : futures)
    if (const std::exception_ptr error = future.error(); error && !first)
      first = error;
  if (first)
    std::rethrow_exception(first);
  std::vector<T> values;
  for (rpc::Future<T>& future : futures)
    values.push_back(std::move(future).get());
  return values;
}
void gather(const std::vector<rpc::Future<void>>& futures) {
  std::exception_ptr first;
  for (const rpc::Future<void>& future : futures)
    if (const std::exception_ptr error = future.error(); error && !first)
      first = error;
  if (first)
    std::rethrow_exception(first);
}

double scale_for(double norm, double max_norm) {
  // As torch does, so that norms near the limit come out alike.
  return std::min(1.0, max_norm / (norm + 1e-6));
}

std::uint64_t microseconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

std::vector<ParameterGroup> one_group(
    const std::vector<rpc::RRef<at::Tensor>>& parameters) {
  return {{.parameters = parameters}};
}

// The groups' parts on each owner.
std::map<rpc::WorkerId, std::vector<OwnedGroup>> by_owner(
    const std::vector<ParameterGroup>& groups, const OptimizerKind& kind) {
  std::map<rpc::WorkerId, std::vector<OwnedGroup>> owners;
  std::int64_t number = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto group = static_cast<std::int64_t>(i);
    for (const rpc::RRef<at::Tensor>& parameter : groups[i].parameters) {
      if (!parameter)
        throw InvalidArgument(text(
            "[dist_autograd] expected references to parameters, got an empty one as "
            "parameter ",
            number,
            "; take those of RemoteModule::parameters() or Agent::own()"));
      std::vector<OwnedGroup>& there = owners[parameter.owner().id];
      if (there.empty() || there.back().group != group)
        there.push_back({.group = group, .kind = groups[i].kind.value_or(kind)});
      there.back().parameters.push_back(parameter);
      there.back().numbers.push_back(number++);
    }
  }
  return owners;
}

}  // namespace

DistributedOptimizer::DistributedOptimizer(
    const rpc::Agent& agent,
    const std::vector<rpc::RRef<at::Tensor>>& parameters,
    DistributedOptimizerOptions options)
    : DistributedOptimizer(agent, one_group(parameters), std::move(options)) {}

DistributedOptimizer::DistributedOptimizer(
    const rpc::Agent& agent,
    const std::vector<ParameterGroup>& groups,
    DistributedOptimizerOptions options)
    : core_(agent.core()),
      contexts_(contexts_of(agent)),
      options_(std::move(options)),
      start_(microseconds_now()) {
  check_options(options_);
  for (const ParameterGroup& group : groups) {
    if (group.parameters.empty())
      throw InvalidArgument(text(
          "[dist_autograd] expected parameters in each group, got none in group ",
          rates_.size(),
          "; leave it out"));
    check(group.kind.value_or(options_.kind));
    rates_.push_back(lr_of(group.kind.value_or(options_.kind)));
    owner_of_.resize(owner_of_.size() + group.parameters.size());
  }
  if (groups.empty())
    throw InvalidArgument(
        "[dist_autograd] expected at least one group of parameters, got none; give "
        "references to those that are to be stepped");
  make(groups);
}

void DistributedOptimizer::make(const std::vector<ParameterGroup>& groups) {
  const Deadline deadline = Deadline::after(options_.timeout);
  std::vector<rpc::Future<void>> made;
  for (const auto& [worker, parts] : by_owner(groups, options_.kind)) {
    for (const OwnedGroup& part : parts)
      for (const std::int64_t number : part.numbers)
        owner_of_.at(static_cast<std::size_t>(number)) = owners_.size();
    owners_.push_back({worker, to(worker, deadline).remote(calls::make, parts)});
    made.push_back(owners_.back().part.made());
  }
  core_->engine().flush();
  gather(made);
  if (options_.trainers)
    to(owners_.front().worker, deadline).call(calls::join, *options_.trainers);
}

DistributedOptimizer::~DistributedOptimizer() {
  if (!options_.trainers)
    return;
  try {
    rpc::Caller(core_, owners_.front().worker, {})
        .async(calls::leave, options_.trainers->name);
    core_->engine().flush();
  } catch (const std::exception& error) {
    TRIREME_LOG(debug, "dist_autograd")
        << "the other trainers were not told that this one leaves: " << error.what();
  }
}

rpc::Caller DistributedOptimizer::to(
    rpc::WorkerId worker, const Deadline& deadline) const {
  return rpc::Caller(
      core_,
      worker,
      {.timeout = std::chrono::duration_cast<milliseconds>(deadline.remaining())});
}

StepResult DistributedOptimizer::step(const ContextId& context) {
  StepResult result;
  {
    const Deadline deadline = Deadline::after(options_.timeout);
    const LocksHeld turn({stepping_}, deadline);
    contexts_->find_met(context);  // refuses one that has ended
    result = options_.all_or_none || options_.max_norm
                 ? step_together(context, deadline)
                 : step_each(context, deadline);
    const std::lock_guard lock(mutex_);
    ++steps_;
  }
  if (options_.trainers)
    keep_pace();
  return result;
}

StepOrder DistributedOptimizer::order() const {
  StepOrder order;
  std::int64_t step = 0;
  {
    const std::lock_guard lock(mutex_);
    order.rates = rates_;
    step = steps_;
  }
  const double factor = options_.lr_factor ? options_.lr_factor(step) : 1;
  if (!(factor >= 0) || !std::isfinite(factor))
    throw InvalidArgument(text(
        "[dist_autograd] expected lr_factor of at least 0 and finite, got ",
        factor,
        " for step ",
        step,
        "; mend the schedule"));
  for (double& rate : order.rates)
    rate *= factor;
  return order;
}

StepResult DistributedOptimizer::step_each(
    const ContextId& context, const Deadline& deadline) {
  const StepOrder now = order();
  std::vector<rpc::Future<StepPart>> steps;
  for (const Owner& owner : owners_)
    steps.push_back(
        to(owner.worker, deadline).async(calls::step, owner.part, context, now));
  const Parts parts = gather(std::move(steps));
  expect_known(context, parts);
  StepResult result;
  for (const StepPart& part : parts)
    result.parameters += part.parameters;
  return result;
}

StepResult DistributedOptimizer::step_together(
    const ContextId& context, const Deadline& deadline) {
  StepWord word{
      .core = core_,
      .step = {core_->me().id, start_, contexts_->next_pass()},
      .owners = {}};
  for (const Owner& owner : owners_)
    word.owners.push_back(owner.worker);
  StepResult result;
  StepOrder now;
  try {
    const Parts parts = prepare(word.step, context, deadline);
    expect_known(context, parts);
    double squares = 0;
    for (const StepPart& part : parts) {
      result.parameters += part.parameters;
      squares += part.squares;
    }
    now = order();
    if (options_.max_norm) {
      result.norm = std::sqrt(squares);
      now.scale = scale_for(*result.norm, *options_.max_norm);
    }
  } catch (...) {
    tell_given_up(word);
    throw;
  }
  commit(word, now, deadline);
  return result;
}

DistributedOptimizer::Parts DistributedOptimizer::prepare(
    const StepId& step, const ContextId& context, const Deadline& deadline) {
  const StepPlan plan{
      .step = step,
      .context = context,
      .decider = options_.all_or_none ? owners_.front().worker : -1,
      .finite = options_.all_or_none,
      .squares = options_.max_norm.has_value()};
  std::vector<rpc::Future<StepPart>> prepared;
  for (const Owner& owner : owners_)
    prepared.push_back(
        to(owner.worker, deadline).async(calls::prepare, owner.part, plan));
  return gather(std::move(prepared));
}

void DistributedOptimizer::commit(
    const StepWord& word, const StepOrder& order, const Deadline& deadline) {
  const rpc::Future<void> done =
      options_.all_or_none ? commit_all_or_none(word, order) : commit_each(word, order);
  if (!done.wait(deadline))
    throw TimeoutError(text(
        "[dist_autograd] expected all owners of parameters to step within ",
        deadline.allowed().count(),
        " ms, got none or only some so far, and the others will when they can; look "
        "what they wait for: ",
        core_->engine().outstanding().empty() ? std::string("no call is under way")
                                              : core_->engine().outstanding().front()));
  done.get();
}

void DistributedOptimizer::expect_known(
    const ContextId& context, const Parts& parts) const {
  bool known = context.creator == core_->me().id;
  for (const StepPart& part : parts)
    known = known || part.in_context;
  if (!known)
    throw Error(text(
        "[dist_autograd] expected a context in which parameters were used, got ",
        to_string(context),
        ", which no owner has heard of; step before it ends"));
}

void DistributedOptimizer::keep_pace() {
  const rpc::WorkerId counter = owners_.front().worker;
  const std::string& group = options_.trainers->name;
  PaceAnswer gone;
  try {
    gone = to(counter, Deadline::after(options_.timeout)).call(calls::done, group);
  } catch (const TimeoutError&) {
    std::string late;
    for (const std::string& trainer :
         to(counter, Deadline::after(std::chrono::seconds(2))).call(calls::late, group))
      late += (late.empty() ? "" : ", ") + trainer;
    throw TimeoutError(text(
        "[dist_autograd] expected the trainers of \"",
        group,
        "\" to keep in step within ",
        options_.timeout.count(),
        " ms, got ",
        late.empty() ? "no word of worker " + core_->worker(counter).name : late,
        "; look what it waits for, or allow more staleness"));
  }
  if (gone)
    throw PeerError(
        core_->worker(*gone).id,
        text(
            "[dist_autograd] expected the trainers of \"",
            group,
            "\" to keep in step, got none of ",
            *gone,
            " any more, whose worker is gone; start it anew, or go on without by a new "
            "optimizer"));
}

void DistributedOptimizer::set_lr(double lr) {
  check_lr(lr);
  const std::lock_guard lock(mutex_);
  std::fill(rates_.begin(), rates_.end(), lr);
}

void DistributedOptimizer::set_lr(std::size_t group, double lr) {
  check_lr(lr);
  check_group(group);
  const std::lock_guard lock(mutex_);
  rates_[group] = lr;
}

double DistributedOptimizer::lr(std::size_t group) const {
  check_group(group);
  const std::lock_guard lock(mutex_);
  return rates_[group];
}

void DistributedOptimizer::check_group(std::size_t group) const {
  if (group >= rates_.size())
    throw InvalidArgument(text(
        "[dist_autograd] expected a group below ",
        rates_.size(),
        ", got ",
        group,
        "; count them in the order in which they were given"));
}

std::int64_t DistributedOptimizer::steps() const {
  const std::lock_guard lock(mutex_);
  return steps_;
}

}  // namespace trireme::dist_autograd
