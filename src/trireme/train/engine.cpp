#include "trireme/train/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "trireme/pipe/module_stage.h"
#include "trireme/sched/index.h"
#include "trireme/train/model_source.h"

namespace trireme::train {
namespace {

using sched::index;

std::vector<sched::LayerRange> ranges_of(
    const Layout& layout, const std::vector<int>& stages) {
  std::vector<sched::LayerRange> ranges;
  for (const int stage : stages)
    ranges.push_back(layout.layers[index(stage)]);
  return ranges;
}

// The tensors of tied parameters that another place counts for the norm.
std::vector<at::Tensor> counted_elsewhere(
    const std::vector<pipe::Tied>& tied,
    const std::vector<int>& stages,
    const std::vector<pipe::LayerList>& layers) {
  const auto find = [&](const pipe::TiedParameter& place) -> at::Tensor {
    const auto mine = std::find(stages.begin(), stages.end(), place.stage);
    if (mine == stages.end())
      return {};
    for (const auto& [name, tensor] :
         pipe::parameters(layers[static_cast<size_t>(mine - stages.begin())]))
      if (name == place.name)
        return tensor;
    return {};
  };
  std::vector<at::Tensor> elsewhere;
  for (const pipe::Tied& one : tied) {
    const at::Tensor first = find(one.places.front());
    for (size_t i = 1; i < one.places.size(); ++i) {
      const at::Tensor here = find(one.places[i]);
      if (here.defined() && !here.is_same(first))
        elsewhere.push_back(here);
    }
  }
  return elsewhere;
}

// Adds what a pass has done to the outcome of its step.
void add_times(const pipe::Timeline& timeline, StepOutcome& outcome) {
  for (const pipe::ActionTime& action : timeline.actions)
    if (sched::is_compute(action.action.kind()))
      outcome.busy_s += static_cast<double>(action.end_ns - action.start_ns) * 1e-9;
  if (outcome.start_ns == 0)
    outcome.start_ns = timeline.start_ns;
  outcome.end_ns = timeline.end_ns;
}

double mean_of(const std::vector<at::Tensor>& losses) {
  return losses.empty() ? 0.0 : at::stack(losses).mean().item<double>();
}

}  // namespace

at::Tensor token_loss(const pipe::Tensors& outputs, const pipe::Tensors& targets) {
  const at::Tensor logits = outputs[0].flatten(0, -2).to(at::kFloat);
  return at::cross_entropy_loss(logits, targets[0].flatten());
}

Engine::Engine(
    const comm::Mesh& mesh,
    const model::ModelPlan& plan,
    const Layout& layout,
    const Config& config,
    FirstWeights first)
    : mesh_(mesh),
      layout_(layout),
      max_norm_(config.training.max_norm),
      dtype_(build_options(config).dtype) {
  stages_ = sched::stages_of(layout_.schedule.rank_of_stage, mesh_.coordinate("pp"));
  has_first_ = layout_.schedule.owner(0) == mesh_.coordinate("pp");
  has_last_ = layout_.schedule.owner(layout_.stages() - 1) == mesh_.coordinate("pp");
  model::BuildOptions options = build_options(config);
  options.initialise = first == FirstWeights::OfTheSeed;
  layers_ = model::build_stages(plan, ranges_of(layout_, stages_), options);
  make_sync();
  make_pipeline(plan, config);
  optimizer_ = std::make_unique<Optimizer>(pipeline_->parameters(), config.optimizer);
}

void Engine::make_sync() {
  // Gradients of low precision are added up in float32, which the reducers do; whole
  // ones need none where there is nobody to reduce with.
  const bool low = dtype_ != at::kFloat;
  if (mesh_.size("dp") == 1 && !low)
    return;
  std::vector<dp::StageParameters> all;
  for (size_t i = 0; i < stages_.size(); ++i) {
    dp::StageParameters one{.stage = stages_[i], .parameters = {}};
    for (const auto& [name, tensor] : pipe::parameters(layers_[i]))
      one.parameters.push_back({name, tensor});
    all.push_back(std::move(one));
  }
  dp::DataParallelOptions options;
  options.norm = true;
  options.init_sync = false;  // every rank draws the same weights
  if (low) {
    options.gradient_dtype = at::kFloat;
    options.unrounded = true;  // the optimizer has masters of that dtype
  }
  sync_ = std::make_shared<dp::StageSync>(all, mesh_["dp"], options);
}

void Engine::make_pipeline(const model::ModelPlan& plan, const Config& config) {
  std::vector<pipe::Stage> stages;
  for (size_t i = 0; i < stages_.size(); ++i) {
    stages.push_back({stages_[i], pipe::make_stage(layers_[i])});
    stages.back().module->allow_overlap(plan.may_overlap);
  }
  const auto tied = model::tied_places(plan, layout_.layers);
  pipe::PipelineOptions options;
  options.custom = layout_.schedule;
  options.tied = tied;
  options.sync = sync_;
  options.loss_scale = 1.0 / layout_.batch.passes;
  options.seed = static_cast<uint64_t>(config.training.seed);
  pipeline_ = std::make_unique<pipe::Pipeline>(
      std::move(stages), mesh_["pp"], token_loss, std::move(options));
  const auto elsewhere = counted_elsewhere(tied, stages_, layers_);
  if (sync_ != nullptr) {
    clipped_ = dp::clipped(*sync_, elsewhere);
    return;
  }
  for (const auto& [name, tensor] : pipeline_->parameters())
    clipped_.push_back(
        {.tensor = tensor,
         .counts = std::none_of(
             elsewhere.begin(), elsewhere.end(), [&](const at::Tensor& other) {
               return other.is_same(tensor);
             })});
}

pipe::Batch Engine::pass(const data::TokenBatch& batch, int number) const {
  const int64_t size = layout_.batch.local_batch();
  const auto part = [&](const at::Tensor& whole) {
    return whole.narrow(0, number * size, size);
  };
  pipe::Batch made;
  if (has_first_)
    made.inputs = {part(batch.inputs)};
  if (has_last_)
    made.targets = {part(batch.targets)};
  made.step = batch.step;
  made.first_sample = batch.first_sample + number * size;
  return made;
}

double Engine::take_norm() {
  if (sync_ != nullptr) {
    // The squares that the reducers took belong to this step.
    const auto fresh = dp::clipped(*sync_);
    for (size_t i = 0; i < clipped_.size(); ++i)
      clipped_[i].squares = fresh[i].squares;
  }
  // The norm alone: the optimizer cuts on its way.
  const double norm = dp::clip_grad_norm(
      mesh_, clipped_, {.max_norm = std::numeric_limits<double>::infinity()});
  // As torch counts it, so that norms near the limit come out alike.
  factor_ = max_norm_ > 0 ? std::min(1.0, max_norm_ / (norm + 1e-6)) : 1;
  return norm;
}

StepOutcome Engine::backward(const data::TokenBatch& batch) {
  StepOutcome outcome;
  const int passes = layout_.batch.passes;
  for (int i = 0; i < passes; ++i) {
    const bool waits = sync_ != nullptr && i + 1 < passes;
    if (waits)
      sync_->pause();
    outcome.loss += mean_of(pipeline_->step(pass(batch, i)).losses) / passes;
    if (waits)
      sync_->resume();
    add_times(pipeline_->timeline(), outcome);
  }
  outcome.grad_norm = take_norm();
  return outcome;
}

void Engine::update(double rate) {
  optimizer_->step(rate, factor_);
  optimizer_->zero_grad();
}

void Engine::discard() {
  optimizer_->zero_grad();
}

StepOutcome Engine::step(const data::TokenBatch& batch, double rate) {
  const StepOutcome outcome = backward(batch);
  if (std::isfinite(outcome.grad_norm))
    update(rate);
  else
    discard();
  return outcome;
}

double Engine::evaluate(const data::TokenBatch& batch) {
  double loss = 0;
  const int passes = layout_.batch.passes;
  for (int i = 0; i < passes; ++i)
    loss += mean_of(pipeline_->evaluate(pass(batch, i)).losses) / passes;
  return loss;
}

}  // namespace trireme::train
