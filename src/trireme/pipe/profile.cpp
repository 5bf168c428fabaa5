#include "trireme/pipe/profile.h"

#include <algorithm>
#include <map>
#include <utility>

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/pipe/action_costs.h"
#include "trireme/pipe/measure_links.h"
#include "trireme/pipe/program.h"
#include "trireme/pipe/step_data.h"
#include "trireme/sched/index.h"

namespace trireme::pipe {
namespace {

using sched::Action;
using sched::ActionKind;
using sched::index;

/// Puts gradients and buffers back as they were, in the memory that they were in: under
/// data parallelism gradients lie in buckets, which the steps in between write to.
class SavedState {
 public:
  explicit SavedState(const Pipeline& pipeline, autograd::GradientStore& store)
      : store_(store) {
    const c10::AutoGradMode no_grad(false);
    for (const auto& [name, parameter] : pipeline.parameters()) {
      const at::Tensor gradient = store_.get(parameter);
      gradients_.push_back(
          {parameter, gradient, gradient.defined() ? gradient.clone() : gradient});
      store_.set(parameter, at::Tensor());
    }
    for (const auto& [name, buffer] : pipeline.buffers())
      buffers_.emplace_back(buffer, buffer.clone());
  }
  ~SavedState() {
    const c10::AutoGradMode no_grad(false);
    for (const auto& [parameter, gradient, value] : gradients_) {
      if (gradient.defined())
        gradient.copy_(value);
      store_.set(parameter, gradient);
    }
    for (const auto& [buffer, value] : buffers_)
      buffer.copy_(value);
  }
  SavedState(const SavedState&) = delete;
  SavedState& operator=(const SavedState&) = delete;

 private:
  autograd::GradientStore& store_;
  struct Saved {
    at::Tensor parameter;
    at::Tensor gradient;
    at::Tensor value;
  };
  std::vector<Saved> gradients_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;
};

void run_steps(
    Pipeline& pipeline,
    const Batch& batch,
    const sched::Schedule& schedule,
    int steps,
    ActionCosts& costs) {
  for (int step = 0; step <= steps; ++step) {
    pipeline.step(batch, schedule);
    const StepReport report = pipeline.report();
    if (step > 0)
      costs.add(report);
  }
}

/// The bytes of weights of all stages.
std::vector<double> share_weight_bytes(const Pipeline& pipeline) {
  const size_t stages = pipeline.rank_of_stage().size();
  at::Tensor bytes = at::zeros({static_cast<int64_t>(stages)}, at::kDouble);
  auto* values = bytes.mutable_data_ptr<double>();
  for (const Stage& stage : pipeline.stages())
    for (const auto& [name, parameter] : stage.module->parameters())
      values[stage.index] += static_cast<double>(parameter.nbytes());
  comm::all_reduce(pipeline.group(), bytes);
  return {values, values + stages};
}

/// Of the largest message that any rank has sent.
int64_t largest_message(const Pipeline& pipeline) {
  at::Tensor bytes = at::full({1}, pipeline.timeline().message_bytes, at::kLong);
  comm::all_reduce(pipeline.group(), bytes, {.op = comm::ReduceOp::Max});
  return bytes.item<int64_t>();
}

/// What was seen in steps has been on its way with all that a message does there: it
/// takes the place of what was measured without.
void put_seen(
    std::vector<sched::Link>& links,
    const std::vector<sched::Link>& seen,
    double message_bytes) {
  std::map<std::pair<int, int>, double> travel;
  for (const sched::Link& link : seen)
    travel[{link.from, link.to}] = link.latency;
  for (sched::Link& link : links)
    if (const auto found = travel.find({link.from, link.to}); found != travel.end())
      link.latency = std::max(0.0, found->second - message_bytes / link.bandwidth);
}

}  // namespace

sched::Schedule profile_schedule(
    const std::vector<int>& rank_of_stage,
    int microbatches,
    bool split,
    std::vector<sched::StageEdge> extra_edges) {
  sched::Schedule schedule =
      forward_schedule(rank_of_stage, microbatches, std::move(extra_edges));
  schedule.name = "profile";
  for (auto& list : schedule.actions) {
    // The wave comes back the way it went.
    std::vector<Action> backwards;
    for (const Action& forward : list)
      backwards.emplace_back(
          split ? ActionKind::InputGrad : ActionKind::Backward,
          forward.stage(),
          microbatches - 1 - forward.microbatch());
    std::reverse(backwards.begin(), backwards.end());
    list.insert(list.end(), backwards.begin(), backwards.end());
    if (split)
      for (const Action& input_grad : backwards)
        list.emplace_back(
            ActionKind::WeightGrad, input_grad.stage(), input_grad.microbatch());
  }
  return schedule;
}

sched::CostFile profile(
    Pipeline& pipeline, const Batch& batch, const ProfileOptions& options) {
  const int microbatches = count_microbatches(batch, pipeline.options());
  const auto& owners = pipeline.rank_of_stage();
  const SavedState saved(pipeline, *pipeline.options().store);
  const std::vector<double> weight_bytes = share_weight_bytes(pipeline);
  ActionCosts measured;
  for (const bool split : {false, true})
    run_steps(
        pipeline,
        batch,
        profile_schedule(owners, microbatches, split),
        options.steps,
        measured);
  sched::CostFile file;
  file.costs.stages.clear();
  for (int stage = 0; stage < static_cast<int>(owners.size()); ++stage)
    file.costs.stages.push_back(measured.of_stage(stage, weight_bytes[index(stage)]));
  const int64_t message_bytes = largest_message(pipeline);
  file.costs.message_bytes = static_cast<double>(message_bytes);
  file.costs.links = measure_links(pipeline.group(), pipeline.hosts(), message_bytes);
  put_seen(file.costs.links, measured.links(), file.costs.message_bytes);
  return file;
}

}  // namespace trireme::pipe
