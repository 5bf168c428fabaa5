// A model and a batch, run in one process and as a pipeline, to be compared.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include "trireme/comm/group.h"
#include "trireme/core/error.h"
#include "trireme/pipe/module_stage.h"
#include "trireme/pipe/pipeline.h"

namespace trireme::pipe {

/// All stages of a model with their initial values, made anew by each call.
using ModelMaker = std::function<std::vector<StagePtr>()>;

/// What is to be computed; all of it is given, whoever has which stage.
struct Problem {
  ModelMaker model;
  Loss loss;
  Batch batch{};
  PipelineOptions options{};
  /// Whether gradients have the same bits if they are added up in the same order.
  bool exact = true;
  /// Let the stages say that they may overlap.
  bool may_overlap = true;
};

/// What a step, or several, have led to.
struct Outcome {
  /// One a microbatch.
  std::vector<at::Tensor> losses{};
  std::vector<Tensors> outputs{};
  /// The stages after it: their gradients, parameters and buffers.
  std::vector<StagePtr> model{};
  /// The inputs, with their gradients.
  Tensors inputs{};
};

/// Runs the microbatches one after the other through all stages, with torch's engine.
Outcome run_alone(const Problem& problem, int steps = 1);
/// One step more: goes on with the stages of an outcome, and adds to their gradients.
void step_alone(const Problem& problem, Outcome& outcome, int64_t step);

/// The rank of each stage, as the options of the problem want it.
std::vector<int> place_stages(const Problem& problem, int ranks);

/// What a rank hears of a step that fails.
struct FailedStep {
  /// It was this rank, which throws what its stage has thrown; the others throw
  /// PeerError.
  bool here = false;
  /// In the world.
  int rank = -1;
  std::string text;
};

/// One rank of the pipeline for a problem.
class PipelineRank {
 public:
  PipelineRank(const Problem& problem, const comm::Group& world);

  Pipeline& pipeline() { return *pipeline_; }
  bool has(int stage) const;
  bool has_last() const { return has(static_cast<int>(owners_.size()) - 1); }
  /// What this rank gives to a step; inputs that require grad are leaves of its own.
  Batch share(const Batch& whole);
  StepResult step() { return pipeline_->step(share(problem_.batch)); }
  /// A step in which some rank fails, and what this one hears of it. Who was through
  /// with it before that rank failed hears of it in the next.
  FailedStep failing_step();
  void zero_grad() const;
  /// Whether the backwards of a stage go from the first microbatch to the last.
  bool in_order(int stage);

  /// Fails the test unless losses and outputs have the same bits, and gradients too
  /// where the backwards went in_order().
  void expect(const Outcome& wanted, const StepResult& got);
  void expect_gradients(const Outcome& wanted);
  void expect_buffers(const Outcome& wanted);

 private:
  Problem problem_;
  int rank_ = 0;
  std::vector<int> owners_;
  std::vector<StagePtr> model_;
  std::unique_ptr<Pipeline> pipeline_;
  Tensors inputs_;
};

/// Runs a problem of four stages and four microbatches alone, and under schedules of
/// all kinds on threads and on processes, and compares.
void expect_equals_one_process(Problem problem);

/// Whether both are equal to the last bits, as fp32 allows when sums are taken in
/// another order.
::testing::AssertionResult close(const at::Tensor& got, const at::Tensor& wanted);

at::Tensor mean_square(const Tensors& outputs, const Tensors& targets);

/// tanh(x w + b), with parameters "<name>.w" and "<name>.b".
StagePtr dense(const std::string& name, int64_t in, int64_t out, uint64_t seed);
/// So many of these, of one width.
ModelMaker dense_model(int stages, int64_t width);
/// A parameter: random numbers of this seed.
at::Tensor parameter(at::IntArrayRef sizes, uint64_t seed, double scale = 0.5);

/// `rows` rows of `width` numbers for a dense_model, and as many targets.
Batch dense_batch(int64_t rows, int64_t width);
/// The whole of it.
Problem dense_problem(
    const std::string& schedule, int stages, int microbatches, int64_t rows = 0);

}  // namespace trireme::pipe
