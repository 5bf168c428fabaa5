// Pipeline: the stages of a model on the ranks of a group, under any schedule. The
// module's main type.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/autograd/gradient_sync.h"
#include "trireme/comm/clock_offset.h"
#include "trireme/comm/group.h"
#include "trireme/comm/rank_hosts.h"
#include "trireme/pipe/links.h"
#include "trireme/pipe/microbatches.h"
#include "trireme/pipe/report.h"
#include "trireme/pipe/runtime.h"
#include "trireme/pipe/tied.h"
#include "trireme/sched/costs.h"
#include "trireme/sched/schedule.h"

namespace trireme::pipe {

/// What the gradients of a step are those of.
enum class LossReduction {
  /// The mean of the microbatches' losses, each with its weight.
  Mean,
  /// Their sum.
  Sum,
};

/// How the two halves of an OVERLAP_F_B run. Always in turn unless both stages say that
/// they may overlap: see StageModule::allow_overlap().
enum class OverlapMode {
  /// At once where every rank has two cores, else in turn: halves that fight for a core
  /// only disturb each other.
  Auto,
  /// At once, the backward on a thread of its own.
  AtOnce,
  /// One after the other.
  InTurn,
};

/// What a pipeline is made with; the same on all ranks.
struct PipelineOptions {
  /// A schedule by name, or "Auto", which suits `costs`.
  std::string schedule = "1F1B";
  /// A schedule of one's own instead: sched::parse_csv(…). It says how many
  /// microbatches there are.
  std::optional<sched::Schedule> custom{};
  /// How many microbatches a step has unless its batch says otherwise.
  int microbatches = 0;
  /// How whole batches are cut and outputs put together; empty: along dim 0.
  std::vector<SplitSpec> input_specs{};
  std::vector<SplitSpec> target_specs{};
  std::map<int, std::vector<SplitSpec>> side_specs{};
  std::vector<MergeSpec> output_specs{};
  /// Outputs that go past stages (what layers save and take by name needs no word
  /// here), and parameters that several stages have.
  std::vector<SkipConnection> skips{};
  std::vector<Tied> tied{};
  LossReduction reduction = LossReduction::Mean;
  /// Multiplies all gradients, for half precision.
  double loss_scale = 1;
  /// Return the outputs of the last stage, on its rank.
  bool return_outputs = false;
  /// Give the losses of step() and evaluate() to all ranks, not to that of the last
  /// stage alone.
  bool share_losses = false;
  /// Who reduces gradients over other ranks; may be null.
  std::shared_ptr<autograd::GradientSync> sync{};
  /// Where gradients go; `sync` reduces them there.
  autograd::GradientStore* store = &autograd::grad_field();
  OverlapMode overlap = OverlapMode::Auto;
  /// How many stages of a rank are unsharded at once, with `sync`.
  int max_active_stages = 3;
  /// The most bytes that the messages of a channel between two ranks may take at once,
  /// from when they are sent to when the receiver has no more use for them; 0: any. A
  /// step whose messages could exceed it is refused, and never waits for it.
  int64_t channel_bytes = 0;
  /// Of Dropout's random numbers.
  uint64_t seed = 0;
  /// For Auto: what profile() has measured, and the most bytes a rank may take.
  sched::Costs costs{};
  std::optional<double> memory_limit{};
};

/// One step's data. Inputs are given on the rank of the first stage, targets on that of
/// the last one, side inputs on that of their stage; or all of it on all ranks, if
/// `on_all_ranks` says so.
struct Batch {
  /// Whole, to be cut; or lists that have been cut already, one entry a microbatch.
  Tensors inputs{};
  Tensors targets{};
  std::map<int, Tensors> side_inputs{};
  std::vector<Tensors> input_microbatches{};
  std::vector<Tensors> target_microbatches{};
  std::map<int, std::vector<Tensors>> side_input_microbatches{};
  /// What each microbatch counts in the mean, as its number of tokens; empty: its rows.
  std::vector<double> weights{};
  /// 0: as the options say.
  int microbatches = 0;
  /// What random numbers follow from beside the seed: the number of the step (none: the
  /// pipeline counts), and of the first sample among those of all data-parallel ranks.
  std::optional<int64_t> step{};
  int64_t first_sample = 0;
  /// Every rank gives the whole batch, and uses what its stages need.
  bool on_all_ranks = false;
  /// In this step, instead of what the options say; on the rank of the last stage.
  std::optional<double> loss_scale{};
  std::optional<bool> return_outputs{};
};

/// What a step gives, on the rank of the last stage.
struct StepResult {
  /// One a microbatch, without history; on all ranks with share_losses.
  std::vector<at::Tensor> losses;
  /// If asked for.
  Tensors outputs;
  /// On the rank of each stage that has called add_loss(): one a microbatch, undefined
  /// where it has not.
  std::map<int, std::vector<at::Tensor>> auxiliary{};
};

/// The parameters of stages, as those take them who reduce gradients:
///
///     dp::StageSync sync(stage_parameters<dp::StageParameters>(mine), mesh["dp"]);
template <class StageParameters>
std::vector<StageParameters> stage_parameters(const std::vector<Stage>& stages) {
  std::vector<StageParameters> all;
  for (const Stage& stage : stages) {
    StageParameters& one = all.emplace_back();
    one.stage = stage.index;
    for (const auto& [name, tensor] : stage.module->parameters())
      one.parameters.push_back({name, tensor});
  }
  return all;
}

/// The stages of this rank as part of a pipeline over a group. Every call but the plain
/// queries is collective: all ranks of the group make it.
///
///     Pipeline pipeline({{rank, make_stage(layers[rank])}}, world, loss,
///                       {.schedule = "1F1B", .microbatches = 8});
///     StepResult result = pipeline.step(inputs, targets);
///     optimizer.step();
///
/// A step runs all microbatches forward and backward and leaves the sum of the
/// gradients in `.grad`, just as one process would. When a stage throws, its rank
/// throws the same (see throw_failure() for what is added), and every other rank throws
/// PeerError with the rank, the stage, the microbatch, the action and the schedule
/// around it. After that, renew the world's group and call rejoin().
class Pipeline {
 public:
  /// InvalidArgument unless every stage is on one rank and the schedule fits them.
  Pipeline(
      std::vector<Stage> stages,
      const comm::Group& group,
      Loss loss,
      PipelineOptions options);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Forward and backward. Gradients are added to those that are there.
  StepResult step(const Batch& batch);
  /// The same with a batch that all ranks give.
  StepResult step(const Tensors& inputs, const Tensors& targets);

  /// Losses and, if asked for, outputs; no gradients, modules in evaluation mode.
  StepResult evaluate(const Batch& batch);
  /// The outputs on the last stage's rank; no loss, no gradients, modules in the mode
  /// that they are in.
  Tensors forward_only(const Batch& batch);

  /// Training or evaluation mode for all stages of this rank.
  void train(bool on = true);
  /// Those of this rank; one that several of its stages share comes once, as an
  /// optimizer wants it.
  NamedTensors parameters() const;
  NamedTensors buffers() const;

  /// Goes on with another group of the same size, as after Group::renew().
  void rejoin(const comm::Group& group);

  /// Runs `handler` in place of every action of a kind; null puts the pipeline's own
  /// back. Unshard, Reshard and ReduceGrad are in the schedule where there is a sync or
  /// something is put in their place. InvalidArgument for messages, and for those three
  /// if the options have a lowered schedule without them.
  void replace(sched::ActionKind kind, ActionHandler handler);
  /// Runs `extra` in every step after `action` of this rank, as for an optimizer step
  /// in a bubble. InvalidArgument for an action of a stage that is elsewhere.
  void add_after(const sched::Action& action, std::function<void()> extra);

  /// The rank of each stage.
  const std::vector<int>& rank_of_stage() const;
  /// The lowered schedule for so many microbatches (0: as the options say).
  const sched::Schedule& schedule(int microbatches = 0);
  /// What this rank did in the last step, and when, by the clock of its host.
  const Timeline& timeline() const;
  /// The last step as all ranks saw it, and as the simulator sees it with these costs.
  /// Collective.
  StepReport report(const std::optional<sched::Costs>& costs = {}) const;

  /// What to add to this rank's times to get those of the first rank, as it was when
  /// the pipeline was made or last reported: for what is drawn beside its reports.
  const comm::ClockOffset& clock() const;
  /// Where the ranks run.
  const std::vector<comm::RankHost>& hosts() const;

  const comm::Group& group() const;
  const PipelineOptions& options() const;
  const std::vector<Stage>& stages() const;
  /// A step under another schedule for the same stages. Collective.
  StepResult step(const Batch& batch, const sched::Schedule& schedule);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trireme::pipe
