#include "trireme/pipe/step_data.h"

#include <numeric>

#include "trireme/comm/collective.h"
#include "trireme/core/error.h"
#include "trireme/sched/index.h"

namespace trireme::pipe {
namespace {

using sched::index;

/// What is cut, for messages: "inputs", "targets", "side inputs of stage 2".
struct Part {
  std::string name;
  int stage = 0;
  /// It is given on ranks that have no use for it, too.
  bool on_all_ranks = false;
};

std::string where(const StagePlaces& place, const Part& part) {
  return text(
      part.name,
      " on ",
      comm::rank_text(place.rank, place.members),
      " (stage ",
      part.stage,
      " is on ",
      comm::rank_text(place.rank_of_stage[index(part.stage)], place.members),
      ")");
}

std::vector<Tensors> cut(
    const Tensors& whole,
    const std::vector<Tensors>& lists,
    const std::vector<SplitSpec>& specs,
    int microbatches,
    const StagePlaces& place,
    const Part& part) {
  if (whole.empty() && lists.empty())
    return {};
  if (part.on_all_ranks && !place.has(part.stage))
    return {};
  if (!place.has(part.stage))
    throw InvalidArgument(text(
        "[pipe] expected no ",
        where(place, part),
        ", got some; give them on the rank that has the stage alone, or set "
        "Batch::on_all_ranks"));
  if (!whole.empty() && !lists.empty())
    throw InvalidArgument(text(
        "[pipe] expected ",
        part.name,
        " whole or cut, got both; leave one of them empty"));
  if (lists.empty()) {
    try {
      return split(whole, microbatches, specs);
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(text(
          error.what(),
          " (",
          part.name,
          " of stage ",
          part.stage,
          ", ",
          comm::rank_text(place.rank, place.members),
          ")"));
    }
  }
  if (lists.size() != index(microbatches))
    throw InvalidArgument(text(
        "[pipe] expected ",
        microbatches,
        " microbatches of ",
        where(place, part),
        ", got ",
        lists.size(),
        "; give one list a microbatch"));
  return lists;
}

void need(
    const std::vector<Tensors>& data, const StagePlaces& place, const Part& part) {
  if (place.has(part.stage) && data.empty())
    throw InvalidArgument(text(
        "[pipe] expected ",
        where(place, part),
        ", got none; pass them to the call on "
        "this rank"));
}

std::vector<double> loss_weights(
    const Batch& batch, const PipelineOptions& options, const StepData& data) {
  const size_t count = data.targets.size();
  std::vector<double> weights = batch.weights;
  if (!weights.empty() && weights.size() != count)
    throw InvalidArgument(text(
        "[pipe] expected ",
        count,
        " loss weights, got ",
        weights.size(),
        "; give one a microbatch"));
  if (weights.empty())
    for (const Tensors& targets : data.targets)
      weights.push_back(
          options.reduction == LossReduction::Mean
              ? static_cast<double>(rows(targets, options.target_specs).value_or(1))
              : 1.0);
  double total = 1;
  if (options.reduction == LossReduction::Mean) {
    total = std::accumulate(weights.begin(), weights.end(), 0.0);
    if (!(total > 0))
      throw InvalidArgument(text(
          "[pipe] expected loss weights with a sum above 0, got ",
          total,
          "; a mean needs something to divide by"));
  }
  for (double& weight : weights)
    weight *= batch.loss_scale.value_or(options.loss_scale) / total;
  return weights;
}

}  // namespace

int count_microbatches(const Batch& batch, const PipelineOptions& options) {
  int count = batch.microbatches;
  if (count == 0 && !batch.input_microbatches.empty())
    count = static_cast<int>(batch.input_microbatches.size());
  else if (count == 0 && !batch.target_microbatches.empty())
    count = static_cast<int>(batch.target_microbatches.size());
  if (count == 0)
    count = options.custom ? options.custom->microbatches : options.microbatches;
  if (count < 1)
    throw InvalidArgument(text(
        "[pipe] expected at least 1 microbatch, got ",
        count,
        "; set PipelineOptions::microbatches or Batch::microbatches"));
  if (options.custom && options.custom->microbatches != count)
    throw InvalidArgument(text(
        "[pipe] expected ",
        options.custom->microbatches,
        " microbatches, which is what the custom schedule has, got ",
        count,
        "; cut the batch accordingly"));
  return count;
}

StepData make_step_data(
    const Batch& batch,
    const PipelineOptions& options,
    const StagePlaces& place,
    int microbatches,
    const StepPurpose& purpose) {
  StepData data;
  const Part inputs{"inputs", 0, batch.on_all_ranks};
  const Part targets{"targets", place.last_stage(), batch.on_all_ranks};
  data.inputs =
      cut(batch.inputs,
          batch.input_microbatches,
          options.input_specs,
          microbatches,
          place,
          inputs);
  need(data.inputs, place, inputs);
  data.targets =
      cut(batch.targets,
          batch.target_microbatches,
          options.target_specs,
          microbatches,
          place,
          targets);
  if (purpose.needs_targets)
    need(data.targets, place, targets);

  std::map<int, std::pair<Tensors, std::vector<Tensors>>> side;
  for (const auto& [stage, tensors] : batch.side_inputs)
    side[stage].first = tensors;
  for (const auto& [stage, lists] : batch.side_input_microbatches)
    side[stage].second = lists;
  for (const auto& [stage, given] : side) {
    if (stage < 0 || stage > place.last_stage())
      throw InvalidArgument(text(
          "[pipe] expected side inputs of stages 0 to ",
          place.last_stage(),
          ", got some of stage ",
          stage,
          "; correct the stage"));
    const auto specs = options.side_specs.find(stage);
    std::vector<Tensors> mine = cut(
        given.first,
        given.second,
        specs == options.side_specs.end() ? std::vector<SplitSpec>() : specs->second,
        microbatches,
        place,
        {text("side inputs of stage ", stage), stage, batch.on_all_ranks});
    if (place.has(stage))
      data.side_inputs[stage] = std::move(mine);
  }

  int64_t sample = batch.first_sample;
  for (const Tensors& microbatch : data.inputs) {
    const std::optional<int64_t> count = rows(microbatch, options.input_specs);
    data.samples.push_back({.first = sample, .count = count.value_or(0)});
    sample += count.value_or(1);
  }
  if (!data.targets.empty()) {
    data.loss_weights = loss_weights(batch, options, data);
    data.losses.resize(index(microbatches));
  }
  return data;
}

}  // namespace trireme::pipe
