// The part of a distributed optimizer that lives with the parameters.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/dist_autograd/gradients.h"
#include "trireme/dist_autograd/optimizer_kind.h"
#include "trireme/dist_autograd/optimizer_state.h"
#include "trireme/dist_autograd/parameter_locks.h"
#include "trireme/rpc/rref.h"

namespace trireme::dist_autograd {

/// The parameters of one group that are on one worker.
struct OwnedGroup {
  /// Which of the optimizer's groups.
  std::int64_t group = 0;
  OptimizerKind kind;
  std::vector<rpc::RRef<at::Tensor>> parameters;
  /// Their numbers among all parameters of the optimizer.
  std::vector<std::int64_t> numbers;
};

/// How to step.
struct StepOrder {
  /// The learning rate of each of the optimizer's groups.
  std::vector<double> rates;
  /// What gradients are multiplied by.
  double scale = 1;
};

/// What a step uses: a gradient for each parameter, undefined where there is none.
struct StepGradients {
  std::vector<at::Tensor> all;
  std::int64_t defined() const;
  /// The sum of the squares of all.
  double squares() const;
};

/// Steps parameters of its own worker, without a look at `.grad`, which stays whatever
/// it is. Thread-safe: steps take turns.
class OwnedOptimizer {
 public:
  /// InvalidArgument for what cannot be stepped: no leaf that requires grad, or the
  /// same one twice.
  OwnedOptimizer(const std::vector<OwnedGroup>& groups, ParameterLocks& locks);
  ~OwnedOptimizer();
  OwnedOptimizer(const OwnedOptimizer&) = delete;
  OwnedOptimizer& operator=(const OwnedOptimizer&) = delete;

  /// The gradients of its parameters, none if `of` is null; Error for those by which it
  /// cannot step, with `finite` also those with an infinite element or NaN.
  StepGradients gradients(const Gradients* of, bool finite) const;
  /// One step; parameters without a gradient stay as they are. A graph that was
  /// recorded before goes backward through the new values: trainers do not wait for
  /// each other here.
  void step(const StepGradients& gradients, const StepOrder& order);

  /// What it keeps, as "3.exp_avg" for parameter 3; copies.
  TensorMap state();
  /// Goes on from such a state. InvalidArgument for one of other parameters; then
  /// nothing has changed. With `only_check` nothing changes at all.
  void load_state(const TensorMap& state, bool only_check);

 private:
  struct Parameter;
  struct Group;
  void add(const OwnedGroup& group);
  void check_gradient(
      const Parameter& parameter,
      const OptimizerKind& kind,
      const at::Tensor& gradient,
      bool finite) const;
  LocksHeld lock() const;
  template <class Visit>
  void each(const Visit& visit) const;

  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<ParameterLocks::Mutex> locks_;
};

}  // namespace trireme::dist_autograd

namespace trireme::rpc {

template <>
struct Fields<dist_autograd::OwnedGroup> {
  using OwnedGroup = dist_autograd::OwnedGroup;
  static constexpr auto name = "trireme.OwnedGroup";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(
      &OwnedGroup::group,
      &OwnedGroup::kind,
      &OwnedGroup::parameters,
      &OwnedGroup::numbers);
};
template <>
struct Fields<dist_autograd::StepOrder> {
  using StepOrder = dist_autograd::StepOrder;
  static constexpr auto name = "trireme.StepOrder";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(&StepOrder::rates, &StepOrder::scale);
};

}  // namespace trireme::rpc
