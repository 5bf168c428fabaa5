// Steps that all owners of parameters take, or none.
#pragma once
#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "trireme/dist_autograd/owned_optimizer.h"

namespace trireme::dist_autograd {

/// A step among all workers.
struct StepId {
  /// The worker that has the optimizer.
  rpc::WorkerId driver = -1;
  /// When the optimizer was made: a worker that was started anew has others.
  std::uint64_t start = 0;
  std::uint64_t number = 0;
  auto operator<=>(const StepId&) const = default;
};

/// A step that can be taken, and waits for the word.
struct PreparedStep {
  std::shared_ptr<OwnedOptimizer> optimizer;
  StepGradients gradients;
  /// The owner that knows whether it is taken, if the driver cannot say it any more;
  /// -1 if nobody does, and it is not.
  rpc::WorkerId decider = -1;
};

/// What one owner knows of such steps. All owners prepare; then the driver tells one of
/// them, the decider, which from that moment on knows that the step is taken; then the
/// others. If the driver is gone before it has told all, who does not know asks the
/// decider: either it knows, or nobody has stepped and nobody will. It does no I/O;
/// thread-safe.
class PreparedSteps {
 public:
  /// Error if it was given up already.
  void prepare(const StepId& id, PreparedStep step);
  /// The step is taken. Error if it is not prepared, or not any more.
  PreparedStep take(const StepId& id);
  /// The same on the decider, who remembers it until settle().
  PreparedStep decide(const StepId& id, const StepOrder& order);
  /// All owners know.
  void settle(const StepId& id);
  /// It is not taken, and will not be.
  void give_up(const StepId& id);
  /// How the step was taken; if it was not, it will not be.
  std::optional<StepOrder> verdict(const StepId& id);

  /// Steps of a driver, with their deciders.
  std::vector<std::pair<StepId, rpc::WorkerId>> of_driver(rpc::WorkerId driver) const;
  /// How many wait for the word.
  std::size_t size() const;

 private:
  // With the lock.
  PreparedStep take_locked(const StepId& id);
  void give_up_locked(const StepId& id);

  mutable std::mutex mutex_;
  std::map<StepId, PreparedStep> prepared_;
  std::map<StepId, StepOrder> decided_;
  // The last ones, since a call to prepare may come after the word to give up.
  std::set<StepId> given_up_;
  std::deque<StepId> given_up_order_;
};

}  // namespace trireme::dist_autograd

template <>
struct trireme::rpc::Fields<trireme::dist_autograd::StepId> {
  using StepId = dist_autograd::StepId;
  static constexpr auto name = "trireme.StepId";
  static constexpr int version = 1;
  static constexpr auto members =
      std::tuple(&StepId::driver, &StepId::start, &StepId::number);
};
