// Carries out one rank's list of actions. A loop and a switch, for every schedule.
#pragma once
#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/autograd/executor.h"
#include "trireme/autograd/gradient_sync.h"
#include "trireme/memory/account.h"
#include "trireme/pipe/channel_book.h"
#include "trireme/pipe/forward_context.h"
#include "trireme/pipe/links.h"
#include "trireme/pipe/overlap_thread.h"
#include "trireme/pipe/program.h"
#include "trireme/pipe/stage_module.h"
#include "trireme/pipe/stamp.h"
#include "trireme/pipe/timeline.h"

namespace trireme::pipe {

/// A stage of this rank.
struct Stage {
  int index = 0;
  StagePtr module;
};

/// The loss of one microbatch: a tensor with one element.
using Loss = std::function<at::Tensor(const Tensors& outputs, const Tensors& targets)>;

/// One step's data, cut into microbatches.
struct StepData {
  /// Of the first stage, and of the last one; empty on ranks that have neither.
  std::vector<Tensors> inputs;
  std::vector<Tensors> targets;
  /// By stage.
  std::map<int, std::vector<Tensors>> side_inputs;
  /// The gradient of each microbatch's loss, on the last stage's rank.
  std::vector<double> loss_weights;
  /// The samples of each microbatch, on the first stage's rank.
  std::vector<SampleRange> samples;
  bool keep_outputs = false;
  int64_t step = 0;
  StepCall call = StepCall::Step;
  /// The step that random numbers belong to.
  int64_t random_step = 0;

  /// Run what Pipeline::add_after() has added.
  bool with_extras = true;

  // Results, on the last stage's rank.
  std::vector<at::Tensor> losses;
  std::vector<Tensors> outputs;
  Tensors merged;
  /// By stage of this rank, one a microbatch: the sum of what add_loss() has added.
  std::map<int, std::vector<at::Tensor>> auxiliary;
};

struct RuntimeOptions {
  Loss loss;
  /// May be null.
  autograd::GradientSync* sync = nullptr;
  uint64_t seed = 0;
  /// Of this rank.
  memory::MemoryAccount account{};
};

/// What a replaced action can see and do.
class ActionContext {
 public:
  virtual ~ActionContext() = default;
  /// The action; a half of an overlap only if the overlap itself is not replaced.
  virtual const sched::Action& action() const = 0;
  virtual StageModule& module() const = 0;
  /// The step as this rank sees it, cut into microbatches: inputs on the rank of the
  /// first stage; targets, weights and the losses so far on that of the last one.
  virtual const StepData& data() const = 0;
  /// What the pipeline would have done.
  virtual void run() = 0;
  /// The halves of an overlap, one by one; run() runs both. A handler that calls these
  /// calls each once, in any order, or at once on two threads. InvalidArgument for any
  /// other action.
  virtual void run_forward() = 0;
  virtual void run_backward() = 0;
};
using ActionHandler = std::function<void(ActionContext&)>;

/// The stages of one rank and what it holds of their microbatches.
class Runtime {
 public:
  Runtime(std::vector<Stage> stages, Links links, RuntimeOptions options);
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// Carries out the list of `rank`. When it throws, position() is where it was.
  void run(
      const Program& program,
      std::vector<std::optional<StepChannel>> channels,
      int rank,
      StepData& data);

  /// The place in the list of the action that runs.
  int position() const { return position_; }
  /// The receive that it waits for, if it does.
  const std::optional<sched::Action>& awaited() const { return awaited_; }
  /// The stage that it comes from.
  int awaited_from() const { return awaited_from_; }
  /// Forgets everything of a step that failed.
  void clear();

  const std::vector<Stage>& stages() const { return stages_; }
  const Links& links() const { return links_; }
  /// Where gradients go from now on.
  void set_store(autograd::GradientStore& store) { store_ = &store; }
  /// Whether the halves of an overlap run at once, where both stages allow it.
  void set_overlap(bool at_once) { overlap_at_once_ = at_once; }
  /// Runs instead of the pipeline's own; null puts it back.
  void replace(sched::ActionKind kind, ActionHandler handler);
  /// Whether anything of the program's own happens at actions of this kind.
  bool uses(sched::ActionKind kind) const;
  /// Runs after an action of every step.
  void add(const sched::Action& after, std::function<void()> extra);

  const Timeline& timeline() const { return timeline_; }
  /// What the last step's backwards could split, by stage as in stages().
  const std::vector<autograd::SplitCounts>& splits() const { return splits_; }

 private:
  struct Context;
  /// A message that is on its way here.
  struct Expected {
    int stage = 0;
    int microbatch = 0;
    int other = 0;
  };
  /// What one stage holds of one microbatch, from its first input to its last gradient;
  /// empty between steps.
  struct Held {
    /// What came over one edge.
    struct Arrival {
      bool there = false;
      Tensors tensors;
    };
    /// Inputs, by edge in; gradients of outputs, by edge out.
    std::vector<Arrival> inputs;
    std::vector<Arrival> output_gradients;
    /// Which of the whole batch it is, for random numbers.
    SampleRange samples;

    /// How many tensors came by each edge in, so that their gradients find back.
    std::vector<size_t> input_counts;
    /// Where the histories of those inputs begin that want a gradient, and which input
    /// each is.
    std::vector<autograd::NodePtr> leaves;
    std::vector<size_t> leaf_inputs;

    /// What the gradient of the microbatch's loss is, once it is known: on the last
    /// stage at its forward, on the others when gradients come.
    double loss_weight = 0;
    /// Auxiliary losses of this stage, until their backward.
    Tensors auxiliary;

    /// The outputs by edge out until they are sent, and then only their gradient edges:
    /// invalid for an output that needs no gradient.
    std::vector<Tensors> outputs;
    autograd::edge_list roots;

    /// The gradients of the inputs until they are sent.
    Tensors input_gradients;
    /// What is left for W.
    autograd::WeightRest weights;
  };

  // runtime.cpp
  void execute(const sched::Action& action);
  void dispatch(const sched::Action& action, autograd::Executor& executor);
  void carry_out(const sched::Action& action, autograd::Executor& executor);
  void overlap(const sched::Action& action);
  bool runs_at_once(const sched::Action& overlap);
  static std::string refusal(const sched::Action& half);
  void log_splits();
  void announce_last_backward(const sched::Action& half);
  void shard(const sched::Action& action);
  void run_extras(const sched::Action& action);
  void note(const sched::Action& action, int64_t start_ns);
  void time_half(
      const sched::Action& half, autograd::Executor& executor, Interval& time);

  // runtime_messages.cpp
  void expect(const sched::Action& receive);
  void await_inputs(const sched::Action& half);
  void await(sched::ActionKind receive, int stage, int microbatch);
  void receive_next(size_t channel);
  void send(const sched::Action& action);
  Stamp stamp(int microbatch) const;

  // runtime_compute.cpp
  void forward(int stage, int microbatch);
  Tensors collect_inputs(int stage, int microbatch);
  void hand_in(Held& here, at::Tensor tensor, Tensors& inputs) const;
  void share_out(int stage, Held& here, const Tensors& outputs) const;
  void keep_roots(int stage, int microbatch, const Tensors& outputs);
  void finish_last_stage(int stage, int microbatch, const Tensors& outputs);
  at::Tensor root_gradient(const at::Tensor& loss, double weight);
  void hand_over_outputs(int stage, int microbatch);
  autograd::Roots take_roots(int stage, int microbatch);
  void backward(int stage, int microbatch, autograd::Executor& executor);
  void input_grad(int stage, int microbatch, autograd::Executor& executor);
  void weight_grad(int stage, int microbatch, autograd::Executor& executor);
  void hand_over_gradients(int stage, int microbatch, Tensors gradients);
  Tensors gradients_for(int stage, int microbatch, size_t edge) const;
  void keep_auxiliary(int stage, int microbatch, Tensors losses);
  ForwardContext context(int stage, int microbatch) const;

  bool is_local(int stage) const {
    return local_of_stage_[static_cast<size_t>(stage)] >= 0;
  }
  bool is_last(int stage) const {
    return stage + 1 == static_cast<int>(local_of_stage_.size());
  }
  StageModule& module(int stage) const;
  size_t local(int stage) const {
    return static_cast<size_t>(local_of_stage_[static_cast<size_t>(stage)]);
  }
  Held& held(int stage, int microbatch);
  const Held& held(int stage, int microbatch) const;

  std::vector<Stage> stages_;
  Links links_;
  RuntimeOptions options_;
  autograd::GradientStore* store_ = &autograd::grad_field();
  /// The place in stages_, or -1.
  std::vector<int> local_of_stage_;
  std::array<ActionHandler, sched::kActionKinds> replaced_;
  std::vector<std::pair<sched::Action, std::function<void()>>> extras_;
  autograd::Executor executor_;
  /// For the other half of an overlap.
  autograd::Executor second_executor_;
  OverlapThread second_thread_;
  bool overlap_at_once_ = true;
  std::vector<autograd::SplitCounts> splits_;
  /// What has been said once.
  bool has_told_overlap_ = false;
  std::vector<bool> has_told_split_;

  // The step that runs.
  const Program* program_ = nullptr;
  StepData* data_ = nullptr;
  int position_ = 0;
  std::optional<sched::Action> awaited_;
  int awaited_from_ = 0;
  std::vector<std::optional<StepChannel>> channels_;
  std::vector<std::deque<Expected>> expected_;
  std::vector<Held> held_;
  /// The last one that was made: it is often the same for all microbatches.
  at::Tensor root_gradient_;
  double root_weight_ = 0;
  Timeline timeline_;
  /// Of the overlap that runs; each half writes its own.
  Interval forward_time_;
  Interval backward_time_;
};

}  // namespace trireme::pipe
