#include "trireme/dist_autograd/prepared_steps.h"

#include "trireme/core/error.h"

namespace trireme::dist_autograd {
namespace {

constexpr std::size_t kMostGivenUp = 4096;

[[noreturn]] void refuse_step(const StepId& id) {
  throw Error(text(
      "[dist_autograd] expected a step that is prepared here, got step ",
      id.number,
      " of worker ",
      id.driver,
      ", which was given up; look at its first error"));
}

}  // namespace

void PreparedSteps::prepare(const StepId& id, PreparedStep step) {
  const std::lock_guard lock(mutex_);
  if (given_up_.contains(id))
    refuse_step(id);
  prepared_.insert_or_assign(id, std::move(step));
}

PreparedStep PreparedSteps::take(const StepId& id) {
  const std::lock_guard lock(mutex_);
  return take_locked(id);
}

PreparedStep PreparedSteps::take_locked(const StepId& id) {
  const auto found = prepared_.find(id);
  if (found == prepared_.end())
    refuse_step(id);
  PreparedStep step = std::move(found->second);
  prepared_.erase(found);
  return step;
}

PreparedStep PreparedSteps::decide(const StepId& id, const StepOrder& order) {
  const std::lock_guard lock(mutex_);
  PreparedStep step = take_locked(id);
  decided_[id] = order;
  return step;
}

void PreparedSteps::settle(const StepId& id) {
  const std::lock_guard lock(mutex_);
  decided_.erase(id);
}

void PreparedSteps::give_up(const StepId& id) {
  const std::lock_guard lock(mutex_);
  give_up_locked(id);
}

void PreparedSteps::give_up_locked(const StepId& id) {
  prepared_.erase(id);
  if (!given_up_.insert(id).second)
    return;
  given_up_order_.push_back(id);
  if (given_up_order_.size() <= kMostGivenUp)
    return;
  given_up_.erase(given_up_order_.front());
  given_up_order_.pop_front();
}

std::optional<StepOrder> PreparedSteps::verdict(const StepId& id) {
  const std::lock_guard lock(mutex_);
  if (const auto found = decided_.find(id); found != decided_.end())
    return found->second;
  give_up_locked(id);
  return {};
}

std::vector<std::pair<StepId, rpc::WorkerId>> PreparedSteps::of_driver(
    rpc::WorkerId driver) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<StepId, rpc::WorkerId>> steps;
  for (const auto& [id, step] : prepared_)
    if (id.driver == driver)
      steps.emplace_back(id, step.decider);
  return steps;
}

std::size_t PreparedSteps::size() const {
  const std::lock_guard lock(mutex_);
  return prepared_.size();
}

}  // namespace trireme::dist_autograd
