// Every schedule with every kind of stage, on two pipelines of two ranks side by side,
// as threads and as processes, against one process on torch's engine.
#include <atomic>
#include <future>
#include <map>
#include <optional>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "../pipe/models.h"
#include "mesh_case.h"
#include "trireme/autograd/checkpoint.h"
#include "trireme/autograd/dropout.h"
#include "trireme/autograd/random_stream.h"
#include "trireme/autograd/split_function.h"
#include "trireme/core/error.h"
#include "trireme/dp/sync_batch_norm.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/index.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using testing::Backend;

constexpr int64_t kWide = 6;
constexpr int64_t kRows = 16;

/// One feature under one schedule.
struct MatrixCase {
  Problem problem;
  /// What one process computes; none: the same with twice as many microbatches.
  std::optional<Problem> reference{};
  MeshRank::Maker make{};
  Tolerance tolerance{};
  bool same_losses = true;
  /// What a rank looks at in the end.
  std::function<void()> then{};
};

/// A stage by its number, of so many; what follows the first may get what it gives.
using StageMaker = std::function<StagePtr(int stage, int stages)>;

MatrixCase case_of(
    const std::string& schedule, int stages, const StageMaker& make_one) {
  MatrixCase made{.problem = whole_problem(schedule, stages)};
  made.problem.model = [=] {
    std::vector<StagePtr> model;
    for (int stage = 0; stage < stages; ++stage)
      model.push_back(make_one(stage, stages));
    return model;
  };
  return made;
}

using CaseMaker = std::function<MatrixCase(const std::string& schedule, int stages)>;

/// Runs it under one schedule.
void run_case(Backend backend, const char* name, const MatrixCase& one) {
  const Outcome wanted = one.reference ? run_alone(*one.reference) : alone(one.problem);
  testing::run_world(backend, 4, [&](const comm::Group& world) {
    SCOPED_TRACE(text(name, ", rank ", world.rank()));
    MeshRank rank(one.problem, world, one.make);
    const StepResult got = rank.step();
    if (one.same_losses)
      rank.expect_losses(wanted, got);
    rank.expect_gradients(wanted, one.tolerance);
    if (one.then)
      one.then();
  });
}

/// Runs it under all schedules that can have so many stages a rank.
void every_schedule(
    Backend backend, const CaseMaker& make_case, int stages_per_rank = 1) {
  int schedules = 0;
  for (const sched::ScheduleInfo& info : sched::all_schedules()) {
    const int per_rank = std::max(info.usual_stages, stages_per_rank);
    if (info.name == std::string("ForwardOnly") ||
        (info.most_stages > 0 && per_rank > info.most_stages))
      continue;
    ++schedules;
    run_case(backend, info.name, make_case(info.name, 2 * per_rank));
  }
  EXPECT_GE(schedules, stages_per_rank == 1 ? 10 : 4);
}

at::Tensor weight_of(int stage, at::IntArrayRef sizes = {kWide, kWide}) {
  return parameter(sizes, 70 + static_cast<uint64_t>(stage));
}

std::string name_of(int stage, const char* what) {
  return text(what, stage);
}

// -- checkpoints that use what they do not name

/// The first stage makes a memory, which goes through all others beside x. Their blocks
/// use it, and what was made of it, without naming either.
StagePtr remembering(int stage, int) {
  const at::Tensor w = weight_of(stage);
  const at::Tensor v = weight_of(50 + stage, {kWide, kWide});
  const TensorsFunction forward = [w, v, stage](const Tensors& in) -> Tensors {
    if (stage == 0)
      return {at::linear(in[0], w).tanh(), at::linear(in[0], v)};
    const at::Tensor memory = in[1];
    const at::Tensor side = at::linear(memory, v);
    const auto block = [w, memory, side](const at::Tensor& x) {
      return at::linear(x, w).tanh() * memory + side.sin();
    };
    return {autograd::checkpoint(block, in[0]), memory};
  };
  return make_function_stage(
      forward, {{name_of(stage, "w"), w}, {name_of(stage, "v"), v}}, {});
}

MatrixCase checkpoint_case(const std::string& schedule, int stages) {
  return case_of(schedule, stages, remembering);
}

TEST(PipelineMatrixCheckpointRanks, EverySchedule) {
  every_schedule(Backend::Local, checkpoint_case);
}
TEST(PipelineMatrixCheckpointProcs, EverySchedule) {
  every_schedule(Backend::Shm, checkpoint_case);
}

// -- stages that bring both halves of their backward

StagePtr own_halves(int stage, int) {
  const at::Tensor weight = weight_of(stage);
  const TensorsFunction forward = [weight](const Tensors& in) -> Tensors {
    const at::Tensor x = in[0].detach();
    const at::Tensor w = weight.detach();
    const Tensors y = autograd::split_function(
        {x.mm(w)},
        {in[0]},
        {weight},
        {.of_inputs = [w](const Tensors& g) { return Tensors{g[0].mm(w.t())}; },
         .of_weights = [x](const Tensors& g) { return Tensors{x.t().mm(g[0])}; }});
    return {y[0].tanh()};
  };
  return make_function_stage(forward, {{name_of(stage, "own"), weight}}, {});
}

MatrixCase own_split_case(const std::string& schedule, int stages) {
  return case_of(schedule, stages, own_halves);
}

TEST(PipelineMatrixOwnSplitRanks, EverySchedule) {
  every_schedule(Backend::Local, own_split_case);
}
TEST(PipelineMatrixOwnSplitProcs, EverySchedule) {
  every_schedule(Backend::Shm, own_split_case);
}

// -- tied parameters, and hooks that look at gradients

StagePtr plain(int stage, int) {
  return dense(name_of(stage, "fc"), kWide, kWide, 10 + static_cast<uint64_t>(stage));
}

/// The first and the last stage have one weight.
MatrixCase tied_case(const std::string& schedule, int stages) {
  MatrixCase made = case_of(schedule, stages, plain);
  const int last = stages - 1;
  made.problem.options.tied = {
      Tied{{{0, name_of(0, "fc") + ".w"}, {last, name_of(last, "fc") + ".w"}}}};
  // As the pipeline does before the first step.
  made.problem.model = [make = made.problem.model] {
    auto model = make();
    const c10::AutoGradMode no_grad(false);
    model.back()->parameters()[0].second.copy_(model.front()->parameters()[0].second);
    return model;
  };
  return made;
}

TEST(PipelineMatrixTiedRanks, EverySchedule) {
  every_schedule(Backend::Local, tied_case);
}
TEST(PipelineMatrixTiedProcs, EverySchedule) {
  every_schedule(Backend::Shm, tied_case);
}

/// Counts, and looks whether the gradient is there.
struct CountingHook : torch::autograd::PostAccumulateGradHook {
  CountingHook(std::atomic<int>& c, std::atomic<int>& m) : calls(c), missing(m) {}
  void operator()(const at::Tensor& leaf) override {
    ++calls;
    missing += !leaf.grad().defined();
  }
  std::atomic<int>& calls;
  std::atomic<int>& missing;
};

/// What the hooks of the tied case have counted.
struct HookCounts {
  std::map<std::string, std::atomic<int>> calls;
  std::atomic<int> missing = 0;

  /// Four microbatches in each replica; once a step for what is tied.
  void expect(int stages, int replicas) const {
    for (const auto& [name, count] : calls) {
      const bool tied = name == "fc0.w" || name == name_of(stages - 1, "fc") + ".w";
      EXPECT_EQ(count, replicas * (tied ? 1 : 4)) << name;
    }
    EXPECT_EQ(missing, 0);
  }
};

MatrixCase hooks_case(HookCounts& counts, const std::string& schedule, int stages) {
  MatrixCase made = tied_case(schedule, stages);
  counts.calls.clear();
  for (int stage = 0; stage < stages; ++stage)
    for (const char* part : {".w", ".b"})
      counts.calls[name_of(stage, "fc") + part] = 0;
  made.reference = made.problem;
  made.reference->options.microbatches *= kReplicas;
  made.make = [&counts, make = made.problem.model](const comm::Group&) {
    auto model = make();
    for (const StagePtr& stage : model)
      for (const auto& [name, tensor] : stage->parameters())
        torch::autograd::impl::set_post_acc_grad_hooks(
            tensor,
            std::make_unique<CountingHook>(counts.calls.at(name), counts.missing));
    return model;
  };
  return made;
}

TEST(PipelineMatrixHooksRanks, EverySchedule) {
  HookCounts counts;
  int last_stages = 0;
  every_schedule(Backend::Local, [&](const std::string& schedule, int stages) {
    if (last_stages > 0)
      counts.expect(last_stages, kReplicas);
    last_stages = stages;
    return hooks_case(counts, schedule, stages);
  });
  counts.expect(last_stages, kReplicas);
}

// A process has the stages of one rank, and its own counts.
TEST(PipelineMatrixHooksProcs, EverySchedule) {
  HookCounts counts;
  every_schedule(Backend::Shm, [&](const std::string& schedule, int stages) {
    MatrixCase made = hooks_case(counts, schedule, stages);
    made.then = [&counts, stages] {
      EXPECT_EQ(
          std::erase_if(counts.calls, [](const auto& one) { return one.second == 0; }),
          static_cast<size_t>(stages));
      counts.expect(stages, 1);
    };
    return made;
  });
}

// -- outputs that go past stages

StagePtr skipping(int stage, int stages) {
  const at::Tensor w = weight_of(stage);
  const TensorsFunction forward = [=](const Tensors& in) -> Tensors {
    const at::Tensor x = stage == stages - 1 ? in[0] + in[1] : in[0];
    const at::Tensor y = at::linear(x, w).tanh();
    return stage == 0 ? Tensors{y, y} : Tensors{y};
  };
  return make_function_stage(forward, {{name_of(stage, "w"), w}}, {});
}

MatrixCase skip_case(const std::string& schedule, int stages) {
  MatrixCase made = case_of(schedule, stages, skipping);
  made.problem.options.skips = {{.from = 0, .output = 1, .to = stages - 1}};
  return made;
}

TEST(PipelineMatrixSkipRanks, EverySchedule) {
  every_schedule(Backend::Local, skip_case, 2);
}
TEST(PipelineMatrixSkipProcs, EverySchedule) {
  every_schedule(Backend::Shm, skip_case, 2);
}

// -- collectives inside stages

/// Normalises with the statistics of all replicas, or alone with those of the batch.
StagePtr normalising(int stage, const std::optional<comm::Group>& replicas) {
  const at::Tensor w = weight_of(stage);
  dp::SyncBatchNorm norm(dp::SyncBatchNormOptions{
      .num_features = kWide, .group = replicas.value_or(comm::Group())});
  const TensorsFunction forward = [w, norm](const Tensors& in) mutable -> Tensors {
    return {norm->forward(at::linear(in[0], w)).tanh()};
  };
  return make_function_stage(
      forward,
      {{name_of(stage, "w"), w},
       {name_of(stage, "gamma"), norm->weight},
       {name_of(stage, "beta"), norm->bias}},
      {});
}

MatrixCase sync_batch_norm_case(const std::string& schedule, int stages) {
  MatrixCase made =
      case_of(schedule, stages, [](int stage, int) { return normalising(stage, {}); });
  made.same_losses = false;
  made.tolerance = {.relative = 1e-4, .absolute = 1e-5};
  // With collectives inside, the halves of an overlap must not run at once, however
  // much that was asked for.
  made.problem.may_overlap = false;
  // A microbatch of one process is those of both replicas together.
  made.reference = made.problem;
  for (Tensors* tensors :
       {&made.reference->batch.inputs, &made.reference->batch.targets})
    for (at::Tensor& tensor : *tensors)
      tensor = tensor.view({kReplicas, 4, kRows / kReplicas / 4, kWide})
                   .transpose(0, 1)
                   .reshape({kRows, kWide});
  made.make = [stages](const comm::Group& replicas) {
    std::vector<StagePtr> model;
    for (int stage = 0; stage < stages; ++stage)
      model.push_back(normalising(stage, replicas));
    return model;
  };
  return made;
}

TEST(PipelineMatrixSyncBatchNormRanks, EverySchedule) {
  every_schedule(Backend::Local, sync_batch_norm_case);
}
TEST(PipelineMatrixSyncBatchNormProcs, EverySchedule) {
  every_schedule(Backend::Shm, sync_batch_norm_case);
}

/// What a handler may do with an overlap.
void halves_at_once(ActionContext& context) {
  auto second = std::async(std::launch::async, [&] { context.run_backward(); });
  context.run_forward();
  second.get();
}

/// That a step whose halves run at once tells every rank of the collective in them.
void refuses_collectives(Backend backend, const sched::ActionKind replaced) {
  MatrixCase one = sync_batch_norm_case("DualPipeV", 4);
  one.problem.may_overlap = true;
  testing::run_world(
      backend,
      4,
      [&](const comm::Group& world) {
        MeshRank rank(one.problem, world, one.make);
        if (replaced == sched::ActionKind::Overlap)
          rank.pipeline->replace(replaced, halves_at_once);
        std::string heard = "nothing";
        try {
          rank.step();
        } catch (const Error& error) {
          heard = error.what();
        }
        EXPECT_TRUE(testing::contains(heard, "expected no collective inside stage "));
      },
      {.timeout = std::chrono::seconds(20)});
}

TEST(PipelineMatrixSyncBatchNormRanks, ACollectiveInAnOverlapIsRefused) {
  refuses_collectives(Backend::Local, sched::ActionKind::Bubble);
}
TEST(PipelineMatrixSyncBatchNormRanks, AndWhereAHandlerRunsTheHalvesAtOnce) {
  refuses_collectives(Backend::Local, sched::ActionKind::Overlap);
}

// -- dropout where samples and positions are one dim

constexpr int64_t kPositions = 3;

StagePtr dropping(int stage, int) {
  const at::Tensor w = weight_of(stage);
  const uint64_t key = autograd::layer_key(name_of(stage, "drop"));
  const TensorsFunction forward = [=](const Tensors& in) -> Tensors {
    const at::Tensor x = stage == 0 ? in[0].flatten(0, 1) : in[0];
    return {autograd::dropout(at::linear(x, w), 0.3, key, true).tanh()};
  };
  return make_function_stage(forward, {{name_of(stage, "w"), w}}, {});
}

MatrixCase dropout_case(const std::string& schedule, int stages) {
  MatrixCase made = case_of(schedule, stages, dropping);
  made.problem.batch = {
      .inputs = {numbers({kRows, kPositions, kWide}, 2)},
      .targets = {numbers({kRows, kPositions, kWide}, 3)}};
  made.problem.loss = [](const Tensors& outputs, const Tensors& targets) {
    return (outputs[0] - targets[0].flatten(0, 1)).pow(2).mean();
  };
  // One process that does not cut the batch at all.
  made.reference = made.problem;
  made.reference->options.microbatches = 1;
  made.same_losses = false;
  return made;
}

TEST(PipelineMatrixDropoutRanks, EverySchedule) {
  every_schedule(Backend::Local, dropout_case);
}
TEST(PipelineMatrixDropoutProcs, EverySchedule) {
  every_schedule(Backend::Shm, dropout_case);
}

// -- stages that change their inputs

StagePtr in_place(int stage, int) {
  const at::Tensor w = weight_of(stage);
  const TensorsFunction forward = [=](const Tensors& in) -> Tensors {
    return {at::linear(stage == 0 ? in[0] : in[0].relu_(), w)};
  };
  return make_function_stage(forward, {{name_of(stage, "w"), w}}, {});
}

MatrixCase in_place_case(const std::string& schedule, int stages) {
  return case_of(schedule, stages, in_place);
}

TEST(PipelineMatrixInPlaceRanks, EverySchedule) {
  every_schedule(Backend::Local, in_place_case);
}
TEST(PipelineMatrixInPlaceProcs, EverySchedule) {
  every_schedule(Backend::Shm, in_place_case);
}

// -- other memory formats

StagePtr convolution(int stage, int) {
  const at::Tensor w = weight_of(stage, {4, 4, 3, 3});
  const TensorsFunction forward = [=](const Tensors& in) -> Tensors {
    EXPECT_TRUE(in[0].is_contiguous(at::MemoryFormat::ChannelsLast)) << stage;
    return {at::conv2d(in[0], w, {}, 1, 1).tanh()};
  };
  return make_function_stage(forward, {{name_of(stage, "w"), w}}, {});
}

MatrixCase channels_last_case(const std::string& schedule, int stages) {
  MatrixCase made = case_of(schedule, stages, convolution);
  const auto images = [](uint64_t seed) {
    return numbers({kRows, 4, 5, 5}, seed).contiguous(at::MemoryFormat::ChannelsLast);
  };
  made.problem.batch = {.inputs = {images(2)}, .targets = {images(3)}};
  made.tolerance = {.relative = 1e-4, .absolute = 1e-5};
  return made;
}

TEST(PipelineMatrixChannelsLastRanks, EverySchedule) {
  every_schedule(Backend::Local, channels_last_case);
}
TEST(PipelineMatrixChannelsLastProcs, EverySchedule) {
  every_schedule(Backend::Shm, channels_last_case);
}

// -- few bits

StagePtr low_precision(int stage, int) {
  const at::Tensor w =
      weight_of(stage).detach().to(at::kBFloat16).set_requires_grad(true);
  const TensorsFunction forward = [=](const Tensors& in) -> Tensors {
    return {at::linear(in[0], w).tanh()};
  };
  return make_function_stage(forward, {{name_of(stage, "w"), w}}, {});
}

MatrixCase bfloat16_case(const std::string& schedule, int stages) {
  MatrixCase made = case_of(schedule, stages, low_precision);
  for (Tensors* tensors : {&made.problem.batch.inputs, &made.problem.batch.targets})
    for (at::Tensor& tensor : *tensors)
      tensor = tensor.to(at::kBFloat16);
  // Sums of eight microbatches that are rounded to eight bits in another order differ
  // by 0.002 to 0.005; one microbatch that is lost, by a tenth and more.
  made.tolerance = {.share = 0.008};
  made.same_losses = false;
  return made;
}

TEST(PipelineMatrixBfloat16Ranks, EverySchedule) {
  every_schedule(Backend::Local, bfloat16_case);
}
TEST(PipelineMatrixBfloat16Procs, EverySchedule) {
  every_schedule(Backend::Shm, bfloat16_case);
}

}  // namespace
}  // namespace trireme::pipe
