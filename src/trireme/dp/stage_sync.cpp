#include "trireme/dp/stage_sync.h"

#include <set>
#include <utility>

#include "trireme/comm/agree.h"
#include "trireme/core/error.h"
#include "trireme/dp/verify.h"

namespace trireme::dp {
namespace {

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
    DataParallelOptions options)
    : options_(std::move(options)), stages_(stages), group_(group) {
  comm::check_everywhere(
      group, {.module = "dp"}, [&] { check_stage_options(options_); });
  std::map<int, std::vector<Parameter>> trained;
  std::set<const void*> seen;
  for (const StageParameters& stage : stages)
    for (const Parameter& parameter : stage.parameters) {
      if (!parameter.tensor.requires_grad())
        frozen_.push_back(parameter);
      else if (seen.insert(parameter.tensor.unsafeGetTensorImpl()).second)
        trained[stage.stage].push_back(parameter);
      else
        shared_.push_back(parameter.tensor);
    }
  for (const auto& [stage, parameters] : trained)
    if (options_.stage_hooks)
      hooks_[stage] = options_.stage_hooks(stage);
  make_equal();
  for (auto& [stage, parameters] : trained) {
    DataParallelOptions own = options_;
    own.hooks = hooks_[stage];
    reducers_[stage] = std::make_unique<Reducer>(
        std::move(parameters), group, std::move(own), Rounds::ByHand);
  }
  if (!shared_.empty())
    leave_to_finish({});
}

void StageSync::make_equal() const {
  if (!options_.init_sync)
    return;
  std::vector<std::string> lines = option_lines(options_);
  for (const StageParameters& stage : stages_) {
    lines.push_back(text("stage ", stage.stage));
    for (const Parameter& parameter : stage.parameters)
      lines.push_back(
          text(parameter.tensor.requires_grad() ? "" : "frozen ", describe(parameter)));
    if (const auto hooks = hooks_.find(stage.stage); hooks != hooks_.end())
      for (const auto& hook : hooks->second)
        lines.push_back(text("hook ", hook->name()));
  }
  verify_same(group_, "stages and options", lines);
  broadcast_values(group_, tensors_of(stages_), 0);
}

void StageSync::check_frozen() const {
  check_still_frozen(frozen_, "at the start", "make the StageSync");
}

Reducer* StageSync::find(int stage) const {
  const auto found = reducers_.find(stage);
  return found == reducers_.end() ? nullptr : found->second.get();
}

autograd::GradientStore& StageSync::store() const {
  if (store_ != nullptr)
    return *store_;
  return options_.store != nullptr ? *options_.store : autograd::grad_field();
}

void StageSync::use(autograd::GradientStore& store) {
  const autograd::GradientStore* own = options_.store;
  if (own != nullptr && own != &store &&
      !(own->is_grad_field() && store.is_grad_field()))
    throw InvalidArgument(
        "[dp] expected the store of the pipeline (PipelineOptions::store) in "
        "DataParallelOptions::store, got another one, whose gradients no step makes; "
        "leave it out, since the pipeline hands its own on");
  store_ = &store;
}

void StageSync::last_backward(int stage) {
  Reducer* reducer = find(stage);
  if (reducer != nullptr && paused_ == 0 && !reducer->is_open())
    reducer->open(store());
}

void StageSync::reduce(int stage) {
  last_backward(stage);  // unless it was announced
  if (Reducer* reducer = find(stage); reducer != nullptr && paused_ == 0)
    reducer->close();
}

void StageSync::finish() {
  check_frozen();
  if (paused_ > 0) {
    for (const auto& [stage, reducer] : reducers_)
      reducer->keep_for_finish(store());
    return;
  }
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
