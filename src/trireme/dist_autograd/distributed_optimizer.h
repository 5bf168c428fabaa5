// Optimizers for parameters on many workers.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "trireme/dist_autograd/context.h"
#include "trireme/dist_autograd/optimizer_desk.h"
#include "trireme/dist_autograd/optimizer_kind.h"
#include "trireme/dist_autograd/step_commit.h"

namespace trireme::dist_autograd {

/// Parameters that are stepped alike.
struct ParameterGroup {
  std::vector<rpc::RRef<at::Tensor>> parameters;
  /// The optimizer's own if left out.
  std::optional<OptimizerKind> kind{};
};

struct DistributedOptimizerOptions {
  /// Sgd, Adam, AdamW, Adagrad or RmsProp, with its options.
  OptimizerKind kind;
  /// All owners step, or none: none does where a gradient of any is wrong or not
  /// finite, where an owner does not answer, or where this worker dies meanwhile.
  bool all_or_none = false;
  /// Gradients of all owners together are scaled down to this norm where they have a
  /// larger one.
  std::optional<double> max_norm{};
  /// What a step, counted from 0, multiplies the learning rates by.
  std::function<double(std::int64_t step)> lr_factor{};
  /// The trainers with which this one keeps in step.
  std::optional<TrainerGroup> trainers{};
  /// How long all owners may take for a step, and the other trainers after it.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
};

struct StepResult {
  /// How many parameters had a gradient; the others stay as they are.
  std::int64_t parameters = 0;
  /// The norm of all gradients before they were scaled, if there is a max_norm.
  std::optional<double> norm{};
};

/// Steps parameters where they are, by the gradients of a context. Each owner has its
/// part of the optimizer, which goes with this object; `.grad` is neither read nor
/// written, so that any number of contexts can be under way.
///
///     DistributedOptimizer optimizer(
///         agent, {weight, bias}, {.kind = Adam{.lr = 1e-3}, .max_norm = 1.0});
///     for (…) {
///       Context context(agent);
///       context.backward({loss_of(batch)});
///       optimizer.step(context);
///     }
///
/// Several trainers may have optimizers for the same parameters: their steps take
/// turns. All of it is safe for threads. It ends before its agent does.
class DistributedOptimizer {
 public:
  /// Throws what an owner says against a parameter, with its name: one that is no leaf,
  /// needs no gradient, or is there twice. Then nothing is left on any.
  DistributedOptimizer(
      const rpc::Agent& agent,
      const std::vector<rpc::RRef<at::Tensor>>& parameters,
      DistributedOptimizerOptions options);
  DistributedOptimizer(
      const rpc::Agent& agent,
      const std::vector<ParameterGroup>& groups,
      DistributedOptimizerOptions options);
  ~DistributedOptimizer();
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  /// One step of all owners. Throws the first error of any, with its name:
  /// rpc::RemoteError, PeerError or TimeoutError. Without all_or_none the others may
  /// have stepped then. TimeoutError and PeerError for trainers that are late or gone
  /// come after the step.
  StepResult step(const ContextView& context) { return step(context.id()); }
  StepResult step(const ContextId& context);

  /// From the next step on, for all groups or one; lr_factor comes on top.
  void set_lr(double lr);
  void set_lr(std::size_t group, double lr);
  double lr(std::size_t group = 0) const;
  /// How many steps were made.
  std::int64_t steps() const;

  /// All that it keeps: "parameter.3.exp_avg" …, "group.0.lr", "steps". Parameters are
  /// counted in the order in which they were given.
  TensorMap state_dict() const;
  /// Goes on from that, wherever the parameters are now. InvalidArgument for the state
  /// of another optimizer or of other parameters; then nothing has changed.
  void load_state_dict(const TensorMap& state);

 private:
  struct Owner {
    rpc::WorkerId worker = -1;
    rpc::RRef<OwnedOptimizer> part;
  };
  using Parts = std::vector<StepPart>;
  void make(const std::vector<ParameterGroup>& groups);
  StepResult step_each(const ContextId& context, const Deadline& deadline);
  StepResult step_together(const ContextId& context, const Deadline& deadline);
  Parts prepare(const StepId& step, const ContextId& context, const Deadline& deadline);
  void commit(const StepWord& word, const StepOrder& order, const Deadline& deadline);
  void expect_known(const ContextId& context, const Parts& parts) const;
  StepOrder order() const;
  void keep_pace();
  std::vector<TensorMap> parts_of(const TensorMap& state) const;
  void check_group(std::size_t group) const;
  rpc::Caller to(rpc::WorkerId worker, const Deadline& deadline) const;

  std::shared_ptr<rpc::AgentCore> core_;
  std::shared_ptr<Contexts> contexts_;
  DistributedOptimizerOptions options_;
  std::uint64_t start_;
  std::vector<Owner> owners_;          // by worker; the first decides and counts
  std::vector<std::size_t> owner_of_;  // of each parameter

  // Held during a step, so that all owners see steps in one order.
  ParameterLocks::Mutex stepping_ = std::make_shared<std::timed_mutex>();
  mutable std::mutex mutex_;
  std::vector<double> rates_;
  std::int64_t steps_ = 0;
};

}  // namespace trireme::dist_autograd
