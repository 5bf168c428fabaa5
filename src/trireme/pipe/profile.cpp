#include "trireme/pipe/profile.h"

#include <algorithm>
#include <map>

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/pipe/program.h"
#include "trireme/pipe/step_data.h"
#include "trireme/sched/index.h"

namespace trireme::pipe {
namespace {

using sched::Action;
using sched::ActionKind;
using sched::index;

/// Puts gradients and buffers back as they were.
class SavedState {
 public:
  explicit SavedState(const Pipeline& pipeline, autograd::GradientStore& store)
      : store_(store) {
    const c10::AutoGradMode no_grad(false);
    for (const auto& [name, parameter] : pipeline.parameters()) {
      gradients_.emplace_back(parameter, store_.get(parameter));
      store_.set(parameter, at::Tensor());
    }
    for (const auto& [name, buffer] : pipeline.buffers())
      buffers_.emplace_back(buffer, buffer.clone());
  }
  ~SavedState() {
    const c10::AutoGradMode no_grad(false);
    for (const auto& [parameter, gradient] : gradients_)
      store_.set(parameter, gradient);
    for (const auto& [buffer, value] : buffers_)
      buffer.copy_(value);
  }
  SavedState(const SavedState&) = delete;
  SavedState& operator=(const SavedState&) = delete;

 private:
  autograd::GradientStore& store_;
  std::vector<std::pair<at::Tensor, at::Tensor>> gradients_;
  std::vector<std::pair<at::Tensor, at::Tensor>> buffers_;
};

double median(std::vector<double> values) {
  if (values.empty())
    return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The single values of every stage, kind and link, from the timelines of all ranks.
struct Samples {
  std::map<std::pair<int, ActionKind>, std::vector<double>> seconds;
  std::map<int, std::vector<double>> kept_bytes;
  std::map<std::pair<int, int>, std::vector<double>> travel;

  void add(const StepReport& report);
  double cost(int stage, ActionKind kind) const {
    const auto found = seconds.find({stage, kind});
    return found == seconds.end() ? 0 : median(found->second);
  }
};

/// What a forward has left behind: after its output has been sent, if it is.
void add_kept(Samples& samples, const std::vector<ActionTime>& list) {
  int64_t before = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const Action& action = list[i].action;
    if (action.kind() == ActionKind::Forward) {
      const Action send(ActionKind::SendForward, action.stage(), action.microbatch());
      const bool sent = i + 1 < list.size() && list[i + 1].action == send;
      const int64_t after = list[sent ? i + 1 : i].live_bytes;
      samples.kept_bytes[action.stage()].push_back(
          static_cast<double>(std::max<int64_t>(0, after - before)));
    }
    before = list[i].live_bytes;
  }
}

void Samples::add(const StepReport& report) {
  std::map<std::pair<int, int>, std::pair<int, int64_t>> sends;
  for (size_t rank = 0; rank < report.timelines.size(); ++rank) {
    for (const ActionTime& one : report.timelines[rank].actions) {
      const Action& action = one.action;
      if (sched::is_compute(action.kind()))
        seconds[{action.stage(), action.kind()}].push_back(
            static_cast<double>(one.end_ns - one.start_ns) * 1e-9);
      if (action.kind() == ActionKind::SendForward)
        sends[{action.stage() + 1, action.microbatch()}] = {
            static_cast<int>(rank), one.start_ns};
    }
    add_kept(*this, report.timelines[rank].actions);
  }
  for (size_t rank = 0; rank < report.timelines.size(); ++rank)
    for (const ActionTime& one : report.timelines[rank].actions) {
      const auto sent = sends.find({one.action.stage(), one.action.microbatch()});
      // Only where the receiver was there first; otherwise the message has waited.
      if (one.action.kind() == ActionKind::ReceiveForward && sent != sends.end() &&
          one.start_ns < sent->second.second)
        travel[{sent->second.first, static_cast<int>(rank)}].push_back(
            static_cast<double>(one.end_ns - sent->second.second) * 1e-9);
    }
}

void run_steps(
    Pipeline& pipeline,
    const Batch& batch,
    const sched::Schedule& schedule,
    int steps,
    Samples& samples) {
  for (int step = 0; step <= steps; ++step) {
    pipeline.step(batch, schedule);
    const StepReport report = pipeline.report();
    if (step > 0)
      samples.add(report);
  }
}

/// Whether all stages of all ranks can be split, and everybody's bytes of weights.
struct StageFacts {
  bool splittable = true;
  std::vector<double> weight_bytes;
};

StageFacts share_facts(const Pipeline& pipeline) {
  const size_t stages = pipeline.rank_of_stage().size();
  at::Tensor facts = at::zeros({static_cast<int64_t>(stages) + 1}, at::kDouble);
  auto* values = facts.mutable_data_ptr<double>();
  for (const Stage& stage : pipeline.stages()) {
    for (const auto& [name, parameter] : stage.module->parameters())
      values[stage.index] += static_cast<double>(parameter.nbytes());
    if (stage.module->unsplittable() && !stage.module->brings_own_split())
      values[stages] += 1;
  }
  comm::all_reduce(pipeline.group(), facts);
  return {values[stages] == 0, {values, values + stages}};
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
  const StageFacts facts = share_facts(pipeline);
  Samples samples;
  run_steps(
      pipeline,
      batch,
      profile_schedule(owners, microbatches, false),
      options.steps,
      samples);
  if (facts.splittable)
    run_steps(
        pipeline,
        batch,
        profile_schedule(owners, microbatches, true),
        options.steps,
        samples);
  sched::CostFile file;
  file.costs.stages.clear();
  for (int stage = 0; stage < static_cast<int>(owners.size()); ++stage) {
    const double backward = samples.cost(stage, ActionKind::Backward);
    file.costs.stages.push_back(
        {.forward = samples.cost(stage, ActionKind::Forward),
         .input_grad = samples.cost(stage, ActionKind::InputGrad),
         .weight_grad =
             facts.splittable ? samples.cost(stage, ActionKind::WeightGrad) : backward,
         .backward = backward,
         .activation_bytes = median(samples.kept_bytes[stage]),
         .weight_bytes = facts.weight_bytes[index(stage)]});
  }
  for (const auto& [ends, seconds] : samples.travel)
    for (const auto& [from, to] : {ends, std::pair{ends.second, ends.first}})
      if (std::none_of(
              file.costs.links.begin(), file.costs.links.end(), [&](const auto& link) {
                return link.from == from && link.to == to;
              }))
        file.costs.links.push_back(
            {.from = from, .to = to, .latency = median(seconds)});
  return file;
}

}  // namespace trireme::pipe
