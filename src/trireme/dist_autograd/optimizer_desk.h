// What distributed optimizers ask of the workers that own parameters: functions that
// every agent of `with_gradients()` serves.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/dist_autograd/contexts.h"
#include "trireme/dist_autograd/messages.h"
#include "trireme/dist_autograd/owned_optimizer.h"
#include "trireme/dist_autograd/pace.h"
#include "trireme/dist_autograd/prepared_steps.h"

namespace trireme::dist_autograd {

/// One owner's part of a step.
struct StepPart {
  /// Whether it has a part in the context.
  bool in_context = false;
  /// How many of its parameters have a gradient.
  std::int64_t parameters = 0;
  /// The sum of the squares of all gradients, where that was asked for.
  double squares = 0;
};

/// What to prepare a step by.
struct StepPlan {
  StepId step;
  ContextId context;
  rpc::WorkerId decider = -1;
  /// Refuse gradients that are not finite.
  bool finite = false;
  /// Say the sum of the squares.
  bool squares = false;
};

namespace optimizer_calls {

using Owned = rpc::RRef<OwnedOptimizer>;
template <class Type>
rpc::Function<Type> declared(const char* name) {
  return {.name = std::string(kPrefix) + "optimizer." + name};
}
inline const auto make =
    declared<std::shared_ptr<OwnedOptimizer>(std::vector<OwnedGroup>)>("make");
inline const auto step = declared<StepPart(Owned, ContextId, StepOrder)>("step");
inline const auto prepare = declared<StepPart(Owned, StepPlan)>("prepare");
inline const auto commit = declared<void(StepId, StepOrder)>("commit");
inline const auto give_up = declared<void(StepId)>("give_up");
inline const auto verdict = declared<std::optional<StepOrder>(StepId)>("verdict");
inline const auto settle = declared<void(StepId)>("settle");
inline const auto state = declared<TensorMap(Owned)>("state");
inline const auto load = declared<void(Owned, TensorMap, bool)>("load");
inline const auto join = declared<void(TrainerGroup)>("join");
inline const auto done = declared<rpc::Future<PaceAnswer>(std::string)>("done");
inline const auto leave = declared<void(std::string)>("leave");
inline const auto late = declared<std::vector<std::string>(std::string)>("late");

}  // namespace optimizer_calls

/// What a worker keeps for optimizers of all workers.
class OptimizerDesk : public std::enable_shared_from_this<OptimizerDesk> {
 public:
  explicit OptimizerDesk(std::shared_ptr<Contexts> contexts)
      : contexts_(std::move(contexts)) {}

  StepPart step(OwnedOptimizer& optimizer, const ContextId& id, const StepOrder& order);
  StepPart prepare(std::shared_ptr<OwnedOptimizer> optimizer, const StepPlan& plan);
  void commit(const StepId& id, const StepOrder& order);
  /// A worker is gone: its trainers are waited for no more, and steps that it has
  /// prepared are taken or given up, whatever the decider says.
  void forget(
      const std::shared_ptr<rpc::AgentCore>& core,
      rpc::WorkerId worker,
      const std::string& why);

  ParameterLocks& locks() { return locks_; }
  PreparedSteps& steps() { return steps_; }
  Paces& paces() { return paces_; }

 private:
  StepGradients gradients(
      const OwnedOptimizer& optimizer,
      const ContextId& id,
      bool finite,
      StepPart& part);
  void resolve(
      const std::shared_ptr<rpc::AgentCore>& core,
      const StepId& id,
      rpc::WorkerId decider);
  void finish(const StepId& id, const std::optional<StepOrder>& order);

  std::shared_ptr<Contexts> contexts_;
  ParameterLocks locks_;
  PreparedSteps steps_;
  Paces paces_;
};

/// Adds the functions to a table; `contexts` is where they find gradients.
void add_optimizer_functions(
    rpc::FunctionTable& functions, const std::shared_ptr<Contexts>& contexts);

}  // namespace trireme::dist_autograd

namespace trireme::rpc {

template <>
struct Fields<dist_autograd::StepPart> {
  using StepPart = dist_autograd::StepPart;
  static constexpr auto name = "trireme.StepPart";
  static constexpr int version = 1;
  static constexpr auto members =
      std::tuple(&StepPart::in_context, &StepPart::parameters, &StepPart::squares);
};
template <>
struct Fields<dist_autograd::StepPlan> {
  using StepPlan = dist_autograd::StepPlan;
  static constexpr auto name = "trireme.StepPlan";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(
      &StepPlan::step,
      &StepPlan::context,
      &StepPlan::decider,
      &StepPlan::finite,
      &StepPlan::squares);
};

}  // namespace trireme::rpc
