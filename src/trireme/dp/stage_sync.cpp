#include "trireme/dp/stage_sync.h"

#include <set>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/dp/verify.h"

namespace trireme::dp {
namespace {

void verify_stages(
    const std::vector<StageParameters>& stages, const comm::Group& group) {
  std::vector<std::string> lines;
  for (const StageParameters& stage : stages) {
    lines.push_back(text("stage ", stage.stage));
    for (const Parameter& parameter : stage.parameters)
      lines.push_back(describe(parameter));
  }
  verify_same(group, "stages", lines);
}

std::vector<at::Tensor> tensors_of(const std::vector<StageParameters>& stages) {
  std::vector<at::Tensor> tensors;
  for (const StageParameters& stage : stages)
    for (const Parameter& parameter : stage.parameters)
      tensors.push_back(parameter.tensor);
  return tensors;
}

}  // namespace

StageSync::StageSync(
    const std::vector<StageParameters>& stages,
    const comm::Group& group,
    const StageSyncOptions& options)
    : options_(options), stages_(stages), group_(group) {
  make_equal();
  std::set<const void*> seen;
  for (const StageParameters& stage : stages) {
    std::vector<Parameter> own;
    for (const Parameter& parameter : stage.parameters) {
      if (!parameter.tensor.requires_grad())
        continue;
      if (seen.insert(parameter.tensor.unsafeGetTensorImpl()).second)
        own.push_back(parameter);
      else
        shared_.push_back(parameter.tensor);
    }
    if (own.empty())
      continue;
    reducers_[stage.stage] = std::make_unique<Reducer>(
        std::move(own),
        group,
        ReducerOptions{
            .limits = options_.limits,
            .reduction = options_.reduction,
            .gradient_dtype = options_.gradient_dtype,
            .check_finite = options_.check_finite,
            .norm = options_.norm,
            .hooks = options_.hooks ? options_.hooks(stage.stage) : CommHooks(),
            .by_hand = true});
  }
  if (!shared_.empty())
    leave_to_finish({});
}

void StageSync::make_equal() const {
  if (!options_.init_sync)
    return;
  verify_stages(stages_, group_);
  broadcast_values(group_, tensors_of(stages_), 0);
}

Reducer* StageSync::find(int stage) const {
  const auto found = reducers_.find(stage);
  return found == reducers_.end() ? nullptr : found->second.get();
}

void StageSync::last_backward(int stage) {
  Reducer* reducer = find(stage);
  if (reducer != nullptr && paused_ == 0 && !reducer->is_open())
    reducer->open(*options_.store);
}

void StageSync::reduce(int stage) {
  last_backward(stage);  // unless it was announced
  if (Reducer* reducer = find(stage); reducer != nullptr && paused_ == 0)
    reducer->close();
}

void StageSync::finish() {
  if (paused_ > 0)
    return;
  for (const auto& [stage, reducer] : reducers_) {
    if (!reducer->is_open())
      reduce(stage);
    reducer->finish();
  }
}

void StageSync::abandon() noexcept {
  for (const auto& [stage, reducer] : reducers_)
    reducer->abandon();
}

void StageSync::leave_to_finish(const std::vector<at::Tensor>& leaves) {
  std::vector<at::Tensor> late = shared_;
  late.insert(late.end(), leaves.begin(), leaves.end());
  for (const auto& [stage, reducer] : reducers_)
    reducer->leave_to_finish(late);
}

void StageSync::pause() {
  ++paused_;
  for (const auto& [stage, reducer] : reducers_)
    reducer->pause();
}

void StageSync::resume() {
  --paused_;
  for (const auto& [stage, reducer] : reducers_)
    reducer->resume();
}

void StageSync::set_weight(int64_t weight) {
  for (const auto& [stage, reducer] : reducers_)
    reducer->set_weight(weight);
}

void StageSync::replace_group(const comm::Group& group) {
  group_ = group;
  make_equal();
  for (const auto& [stage, reducer] : reducers_)
    reducer->replace_group(group);
}

}  // namespace trireme::dp
