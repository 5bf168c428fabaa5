#include "trireme/dist_autograd/optimizer_desk.h"

#include <utility>

#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/rpc/call_context.h"
#include "trireme/rpc/caller.h"

namespace trireme::dist_autograd {
namespace {

using optimizer_calls::Owned;

std::string calling_trainer() {
  return rpc::this_call()->caller->name;
}

// The driver alone says what becomes of its steps.
const StepId& own_step(const StepId& id) {
  if (rpc::this_call()->caller->id != id.driver)
    throw InvalidArgument(text(
        "[dist_autograd] expected word of a step from its worker ",
        id.driver,
        ", got it from ",
        rpc::this_call()->caller->name,
        "; step by the optimizer's own worker"));
  return id;
}

}  // namespace

StepGradients OptimizerDesk::gradients(
    const OwnedOptimizer& optimizer, const ContextId& id, bool finite, StepPart& part) {
  const auto context = contexts_->find_met(id);
  part.in_context = context != nullptr;
  StepGradients gradients =
      optimizer.gradients(context ? &context->gradients() : nullptr, finite);
  part.parameters = gradients.defined();
  return gradients;
}

StepPart OptimizerDesk::step(
    OwnedOptimizer& optimizer, const ContextId& id, const StepOrder& order) {
  StepPart part;
  optimizer.step(gradients(optimizer, id, false, part), order);
  return part;
}

StepPart OptimizerDesk::prepare(
    std::shared_ptr<OwnedOptimizer> optimizer, const StepPlan& plan) {
  StepPart part;
  StepGradients found = gradients(*optimizer, plan.context, plan.finite, part);
  if (plan.squares)
    part.squares = found.squares();
  steps_.prepare(
      own_step(plan.step), {std::move(optimizer), std::move(found), plan.decider});
  return part;
}

// A step that fails here after all was checked is given up for all, if this is the
// decider: the others have not heard of it yet.
void OptimizerDesk::commit(const StepId& id, const StepOrder& order) {
  const PreparedStep step = steps_.decide(own_step(id), order);
  try {
    step.optimizer->step(step.gradients, order);
  } catch (...) {
    steps_.settle(id);
    throw;
  }
  if (step.decider != rpc::this_agent().me().id)
    steps_.settle(id);
}

void OptimizerDesk::forget(
    const std::shared_ptr<rpc::AgentCore>& core,
    rpc::WorkerId worker,
    const std::string& why) {
  paces_.forget(core->worker(worker).name);
  for (const auto& [id, decider] : steps_.of_driver(worker)) {
    TRIREME_LOG(info, "dist_autograd")
        << "step " << id.number << " of worker " << worker << " has no driver: " << why;
    if (decider < 0 || decider == core->me().id)
      steps_.give_up(id);
    else
      resolve(core, id, decider);
  }
}

// On the pool, since this thread must not wait.
void OptimizerDesk::resolve(
    const std::shared_ptr<rpc::AgentCore>& core,
    const StepId& id,
    rpc::WorkerId decider) {
  const auto ask = [self = shared_from_this(), core, id, decider] {
    rpc::Caller(core, decider, {.idempotent = true})
        .async(optimizer_calls::verdict, id)
        .handle(
            [self, id](rpc::Future<std::optional<StepOrder>> answer) {
              // A decider that is gone as well has stepped for nobody.
              self->finish(id, answer.failed() ? std::nullopt : answer.get());
            },
            &core->pool());
    core->engine().flush();
  };
  if (!core->pool().try_run(ask))
    steps_.give_up(id);
}

void OptimizerDesk::finish(const StepId& id, const std::optional<StepOrder>& order) {
  if (!order)
    return steps_.give_up(id);
  try {
    const PreparedStep step = steps_.take(id);
    step.optimizer->step(step.gradients, *order);
  } catch (const std::exception& error) {
    TRIREME_LOG(error, "dist_autograd")
        << "step " << id.number << " of worker " << id.driver
        << ", which is gone, was taken elsewhere but not here: " << error.what();
  }
}

void add_optimizer_functions(
    rpc::FunctionTable& functions, const std::shared_ptr<Contexts>& contexts) {
  const auto desk = std::make_shared<OptimizerDesk>(contexts);
  // The contexts must not keep what keeps them.
  contexts->on_forget([weak = std::weak_ptr(desk)](
                          const std::shared_ptr<rpc::AgentCore>& core,
                          rpc::WorkerId worker,
                          const std::string& why) {
    if (const auto alive = weak.lock())
      alive->forget(core, worker, why);
  });
  namespace calls = optimizer_calls;
  functions.add(calls::make, [desk](const std::vector<OwnedGroup>& groups) {
    return std::make_shared<OwnedOptimizer>(groups, desk->locks());
  });
  functions.add(
      calls::step,
      [desk](const Owned& owned, const ContextId& id, const StepOrder& order) {
        return desk->step(*owned.local_value(), id, order);
      });
  functions.add(calls::prepare, [desk](const Owned& owned, const StepPlan& plan) {
    return desk->prepare(owned.local_value(), plan);
  });
  functions.add(calls::commit, [desk](const StepId& id, const StepOrder& order) {
    desk->commit(id, order);
  });
  functions.add(calls::give_up, [desk](const StepId& id) {
    desk->steps().give_up(own_step(id));
  });
  functions.add(
      calls::verdict, [desk](const StepId& id) { return desk->steps().verdict(id); });
  functions.add(
      calls::settle, [desk](const StepId& id) { desk->steps().settle(own_step(id)); });
  functions.add(
      calls::state, [](const Owned& owned) { return owned.local_value()->state(); });
  functions.add(
      calls::load, [](const Owned& owned, const TensorMap& state, bool check) {
        owned.local_value()->load_state(state, check);
      });
  functions.add(calls::join, [desk](const TrainerGroup& group) {
    desk->paces().join(group, calling_trainer());
  });
  functions.add(calls::done, [desk](const std::string& group) {
    return desk->paces().done(group, calling_trainer());
  });
  functions.add(calls::leave, [desk](const std::string& group) {
    desk->paces().leave(group, calling_trainer());
  });
  functions.add(calls::late, [desk](const std::string& group) {
    return desk->paces().late(group, calling_trainer());
  });
}

}  // namespace trireme::dist_autograd
