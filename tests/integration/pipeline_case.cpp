#include "pipeline_case.h"

#include <algorithm>
#include <numeric>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "../pipe/models.h"
#include "trireme/autograd/random_stream.h"
#include "trireme/core/error.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/index.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using sched::index;

at::Tensor copy_of(const at::Tensor& tensor) {
  if (!tensor.defined())
    return tensor;
  return tensor.detach().clone().set_requires_grad(tensor.requires_grad());
}

/// Written apart from pipe::split(), which the pipeline uses.
std::vector<Tensors> cut_rows(
    const Tensors& whole, const std::vector<Tensors>& lists, int microbatches) {
  if (!lists.empty())
    return lists;
  std::vector<Tensors> cut(index(microbatches));
  for (const at::Tensor& tensor : whole)
    for (int m = 0; m < microbatches; ++m)
      cut[index(m)].push_back(
          tensor.defined() ? tensor.tensor_split(microbatches)[index(m)] : tensor);
  return cut;
}

int count_microbatches(const Problem& problem) {
  if (!problem.batch.input_microbatches.empty())
    return static_cast<int>(problem.batch.input_microbatches.size());
  if (problem.batch.microbatches > 0)
    return problem.batch.microbatches;
  return problem.options.custom ? problem.options.custom->microbatches
                                : problem.options.microbatches;
}

/// What stage `to` gets from the outputs of all stages before it.
Tensors inputs_of(
    int to,
    const std::vector<Tensors>& outputs,
    const std::vector<SkipConnection>& skips) {
  Tensors inputs;
  const Tensors& before = outputs[index(to - 1)];
  for (size_t i = 0; i < before.size(); ++i)
    if (std::none_of(skips.begin(), skips.end(), [&](const SkipConnection& skip) {
          return skip.from == to - 1 && index(skip.output) == i;
        }))
      inputs.push_back(before[i]);
  for (const SkipConnection& skip : skips)
    if (skip.to == to)
      inputs.push_back(outputs[index(skip.from)][index(skip.output)]);
  return inputs;
}

/// One microbatch through all stages.
Tensors forward_all(
    const Problem& problem,
    const std::vector<StagePtr>& model,
    const Tensors& inputs,
    const std::map<int, Tensors>& side) {
  std::vector<Tensors> outputs;
  for (int stage = 0; stage < static_cast<int>(model.size()); ++stage) {
    Tensors in = stage == 0 ? inputs : inputs_of(stage, outputs, problem.options.skips);
    if (const auto found = side.find(stage); found != side.end())
      in.insert(in.end(), found->second.begin(), found->second.end());
    outputs.push_back(model[index(stage)]->forward(in));
  }
  return outputs.back();
}

std::vector<double> weights_of(
    const Problem& problem, const std::vector<Tensors>& targets) {
  const bool mean = problem.options.reduction == LossReduction::Mean;
  std::vector<double> weights = problem.batch.weights;
  if (weights.empty())
    for (const Tensors& target : targets)
      weights.push_back(mean ? static_cast<double>(target[0].size(0)) : 1);
  const double total = mean ? std::accumulate(weights.begin(), weights.end(), 0.0) : 1;
  for (double& weight : weights)
    weight *= problem.options.loss_scale / total;
  return weights;
}

/// Two places of one parameter have one gradient.
void sum_tied(const Problem& problem, const Outcome& outcome) {
  const auto find = [&](const TiedParameter& place) {
    for (const auto& [name, tensor] : outcome.model[index(place.stage)]->parameters())
      if (name == place.name)
        return tensor;
    return at::Tensor();
  };
  for (const Tied& tied : problem.options.tied) {
    at::Tensor sum;
    for (const TiedParameter& place : tied.places) {
      const at::Tensor gradient = find(place).grad();
      sum = sum.defined() ? sum + gradient : gradient;
    }
    for (const TiedParameter& place : tied.places)
      find(place).mutable_grad() = sum;
  }
}

}  // namespace

Outcome run_alone(const Problem& problem, int steps) {
  Outcome outcome{.model = problem.model()};
  for (const at::Tensor& input : problem.batch.inputs)
    outcome.inputs.push_back(copy_of(input));
  for (int step = 0; step < steps; ++step)
    step_alone(problem, outcome, step);
  sum_tied(problem, outcome);
  return outcome;
}

void step_alone(const Problem& problem, Outcome& outcome, int64_t step) {
  const int microbatches = count_microbatches(problem);
  const auto inputs =
      cut_rows(outcome.inputs, problem.batch.input_microbatches, microbatches);
  const auto targets =
      cut_rows(problem.batch.targets, problem.batch.target_microbatches, microbatches);
  std::map<int, std::vector<Tensors>> side;
  for (const auto& [stage, tensors] : problem.batch.side_inputs)
    side[stage] = cut_rows(tensors, {}, microbatches);
  const std::vector<double> weights = weights_of(problem, targets);
  outcome.losses.clear();
  outcome.outputs.clear();
  int64_t sample = problem.batch.first_sample;
  for (size_t m = 0; m < inputs.size(); ++m) {
    const autograd::RandomScope random(autograd::RandomContext{
        .seed = problem.options.seed,
        .step = static_cast<uint64_t>(step),
        .first_sample = static_cast<uint64_t>(sample),
        .samples = inputs[m][0].size(0)});
    sample += inputs[m][0].size(0);
    std::map<int, Tensors> side_of_stage;
    for (const auto& [stage, tensors] : side)
      side_of_stage[stage] = tensors[m];
    const Tensors outputs =
        forward_all(problem, outcome.model, inputs[m], side_of_stage);
    const at::Tensor loss = problem.loss(outputs, targets[m]);
    torch::autograd::backward({loss}, {at::full_like(loss, weights[m])});
    outcome.losses.push_back(loss.detach());
    outcome.outputs.emplace_back();
    for (const at::Tensor& output : outputs)
      outcome.outputs.back().push_back(output.defined() ? output.detach() : output);
  }
}

std::vector<int> place_stages(const Problem& problem, int ranks) {
  if (problem.options.custom)
    return problem.options.custom->rank_of_stage;
  const bool is_auto = problem.options.schedule == "Auto";
  return sched::map_stages(
      is_auto ? sched::StageMap::Loop
              : sched::find_schedule(problem.options.schedule).map,
      ranks,
      static_cast<int>(problem.model().size()));
}

PipelineRank::PipelineRank(const Problem& problem, const comm::Group& world)
    : problem_(problem),
      rank_(world.rank()),
      owners_(place_stages(problem, world.size())),
      model_(problem.model()) {
  std::vector<Stage> mine;
  for (const int stage : sched::stages_of(owners_, rank_)) {
    mine.push_back({stage, model_[index(stage)]});
    model_[index(stage)]->allow_overlap(problem.may_overlap);
  }
  pipeline_ = std::make_unique<Pipeline>(mine, world, problem.loss, problem.options);
}

bool PipelineRank::has(int stage) const {
  return owners_[index(stage)] == rank_;
}

Batch PipelineRank::share(const Batch& whole) {
  Batch mine = whole;
  inputs_.clear();
  if (has(0))
    for (const at::Tensor& input : whole.inputs)
      inputs_.push_back(copy_of(input));
  mine.inputs = inputs_;
  if (!has(0))
    mine.input_microbatches.clear();
  if (!has_last()) {
    mine.targets.clear();
    mine.target_microbatches.clear();
    mine.weights.clear();
  }
  std::erase_if(mine.side_inputs, [&](const auto& side) { return !has(side.first); });
  if (mine.microbatches == 0)
    mine.microbatches = static_cast<int>(whole.input_microbatches.size());
  return mine;
}

FailedStep PipelineRank::failing_step() {
  try {
    step();
    step();
  } catch (const PeerError& error) {
    return {.rank = error.rank(), .text = error.what()};
  } catch (const std::exception& error) {
    const comm::Group& group = pipeline_->group();
    return {
        .here = true,
        .rank = group.members()[index(group.rank())],
        .text = error.what()};
  }
  ADD_FAILURE() << "no rank has failed";
  return {};
}

void PipelineRank::zero_grad() const {
  for (const auto& [name, tensor] : pipeline_->parameters())
    tensor.mutable_grad().reset();
}

bool PipelineRank::in_order(int stage) {
  int last = -1;
  for (const sched::Action& action : pipeline_->schedule().actions[index(rank_)]) {
    bool ascends = true;
    sched::for_each_half(action, [&](const sched::Action& half) {
      if (half.stage() != stage || !sched::gives_weight_grad(half.kind()))
        return;
      ascends = half.microbatch() > last;
      last = half.microbatch();
    });
    if (!ascends)
      return false;
  }
  return true;
}

void PipelineRank::expect_gradients(const Outcome& wanted) {
  for (const Stage& stage : pipeline_->stages()) {
    const bool exact =
        problem_.exact && problem_.options.tied.empty() && in_order(stage.index);
    const NamedTensors got = stage.module->parameters();
    const NamedTensors there = wanted.model[index(stage.index)]->parameters();
    for (size_t i = 0; i < got.size(); ++i) {
      const at::Tensor gradient = got[i].second.grad();
      const at::Tensor other = there[i].second.grad();
      EXPECT_TRUE(exact ? testing::same(gradient, other) : close(gradient, other))
          << "stage " << stage.index << ", " << got[i].first;
    }
  }
  for (size_t i = 0; i < inputs_.size(); ++i)
    EXPECT_TRUE(close(inputs_[i].grad(), wanted.inputs[i].grad())) << "input " << i;
}

void PipelineRank::expect(const Outcome& wanted, const StepResult& got) {
  ASSERT_EQ(got.losses.size(), has_last() ? wanted.losses.size() : 0u);
  for (size_t m = 0; m < got.losses.size(); ++m)
    EXPECT_TRUE(testing::same(got.losses[m], wanted.losses[m])) << "microbatch " << m;
  if (problem_.options.return_outputs && has_last()) {
    const Tensors outputs = merge(wanted.outputs, problem_.options.output_specs);
    ASSERT_EQ(got.outputs.size(), outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i)
      EXPECT_TRUE(testing::same(got.outputs[i], outputs[i])) << "output " << i;
  } else {
    EXPECT_TRUE(got.outputs.empty());
  }
  expect_gradients(wanted);
}

void PipelineRank::expect_buffers(const Outcome& wanted) {
  for (const Stage& stage : pipeline_->stages()) {
    const NamedTensors got = stage.module->buffers();
    const NamedTensors there = wanted.model[index(stage.index)]->buffers();
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(testing::same(got[i].second, there[i].second)) << got[i].first;
  }
}

void expect_equals_one_process(Problem problem) {
  problem.options.microbatches = 4;
  const Outcome wanted = run_alone(problem);
  const std::map<int, std::vector<std::string>> schedules = {
      {4, {"GPipe", "1F1B", "ZB-H1"}},
      {2, {"Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"}}};
  for (const auto backend : {testing::Backend::Local, testing::Backend::Shm})
    for (const auto& [ranks, names] : schedules)
      testing::run_world(backend, ranks, [&](const comm::Group& world) {
        for (const std::string& name : names) {
          SCOPED_TRACE(text(name, ", rank ", world.rank(), " of ", world.backend()));
          Problem here = problem;
          here.options.schedule = name;
          here.options.overlap = OverlapMode::AtOnce;
          PipelineRank rank(here, world);
          rank.expect(wanted, rank.step());
          rank.expect_buffers(wanted);
        }
      });
}

::testing::AssertionResult close(const at::Tensor& got, const at::Tensor& wanted) {
  if (!got.defined() || !wanted.defined() || got.sizes() != wanted.sizes() ||
      got.scalar_type() != wanted.scalar_type())
    return testing::same(got, wanted);
  if (at::allclose(got, wanted, 1.3e-6, 1e-5))
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "they differ by up to " << (got - wanted).abs().max().item<double>();
}

at::Tensor mean_square(const Tensors& outputs, const Tensors& targets) {
  return (outputs[0] - targets[0]).pow(2).mean();
}

at::Tensor parameter(at::IntArrayRef sizes, uint64_t seed, double scale) {
  return (numbers(sizes, seed) * scale).set_requires_grad(true);
}

StagePtr dense(const std::string& name, int64_t in, int64_t out, uint64_t seed) {
  const at::Tensor w = parameter({out, in}, 2 * seed);
  const at::Tensor b = parameter({out}, 2 * seed + 1);
  return make_stage(
      [w, b](const Tensors& inputs) {
        return Tensors{at::linear(inputs[0], w, b).tanh()};
      },
      {{text(name, ".w"), w}, {text(name, ".b"), b}});
}

ModelMaker dense_model(int stages, int64_t width) {
  return [=] {
    std::vector<StagePtr> model;
    for (int i = 0; i < stages; ++i)
      model.push_back(dense(text("fc", i), width, width, 10 + index(i)));
    return model;
  };
}

Batch dense_batch(int64_t rows, int64_t width) {
  return {
      .inputs = {numbers({rows, width}, 2)}, .targets = {numbers({rows, width}, 3)}};
}

Problem dense_problem(
    const std::string& schedule, int stages, int microbatches, int64_t rows) {
  constexpr int64_t kWidth = 6;
  return {
      .model = dense_model(stages, kWidth),
      .loss = mean_square,
      .batch = dense_batch(rows > 0 ? rows : 2 * microbatches, kWidth),
      .options = {
          .schedule = schedule,
          .microbatches = microbatches,
          .return_outputs = true,
          // Also where cores are few: both halves must be safe together.
          .overlap = OverlapMode::AtOnce}};
}

}  // namespace trireme::pipe
