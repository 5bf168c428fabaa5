// Pipelines side by side: pipeline and data parallel on a mesh equal one process.
#include "trireme/comm/mesh.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "pipeline_case.h"
#include "trireme/comm/collectives.h"
#include "trireme/dp/stage_sync.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/index.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using sched::index;
using testing::Backend;

constexpr int kReplicas = 2;

/// This replica's rows.
Batch share_of(const Batch& whole, int replica) {
  Batch mine = whole;
  for (Tensors* tensors : {&mine.inputs, &mine.targets})
    for (at::Tensor& tensor : *tensors)
      tensor = tensor.tensor_split(kReplicas)[index(replica)].clone();
  mine.first_sample = replica * whole.inputs[0].size(0) / kReplicas;
  return mine;
}

/// One rank of a mesh: a pipeline, and the sync of its stages.
struct MeshRank {
  MeshRank(const Problem& whole, const comm::Group& world)
      : mesh(world, {{"dp", kReplicas}, {"pp", world.size() / kReplicas}}),
        problem(whole),
        model(whole.model()) {
    problem.batch = share_of(whole.batch, mesh.coordinate("dp"));
    const auto owners = place_stages(problem, mesh.size("pp"));
    std::vector<Stage> mine;
    for (const int stage : sched::stages_of(owners, mesh["pp"].rank()))
      mine.push_back({stage, model[index(stage)]});
    sync = std::make_shared<dp::StageSync>(
        stage_parameters<dp::StageParameters>(mine),
        mesh["dp"],
        dp::DataParallelOptions{.bucket_bytes = 64});
    problem.options.sync = sync;
    pipeline =
        std::make_unique<Pipeline>(mine, mesh["pp"], problem.loss, problem.options);
    has_first = owners.front() == mesh["pp"].rank();
    has_last = owners.back() == mesh["pp"].rank();
  }

  StepResult step() {
    Batch mine = problem.batch;
    if (!has_first)
      mine.inputs.clear();
    if (!has_last)
      mine.targets.clear();
    return pipeline->step(mine);
  }

  void expect_gradients(const Outcome& wanted) const {
    for (const Stage& stage : pipeline->stages()) {
      const NamedTensors there = wanted.model[index(stage.index)]->parameters();
      const NamedTensors here = stage.module->parameters();
      for (size_t i = 0; i < here.size(); ++i)
        EXPECT_TRUE(close(here[i].second.grad(), there[i].second.grad()))
            << "stage " << stage.index << ", " << here[i].first;
    }
  }

  comm::Mesh mesh;
  Problem problem;
  std::vector<StagePtr> model;
  std::shared_ptr<dp::StageSync> sync;
  std::unique_ptr<Pipeline> pipeline;
  bool has_first = false;
  bool has_last = false;
};

/// Four microbatches for each replica; alone, eight.
Problem whole_problem(const std::string& schedule, int stages) {
  Problem problem = dense_problem(schedule, stages, 4, 16);
  problem.options.return_outputs = false;
  return problem;
}

Outcome alone(Problem problem) {
  problem.options.microbatches *= kReplicas;
  return run_alone(problem);
}

void equals_one_process(Backend backend) {
  for (const sched::ScheduleInfo& info : sched::all_schedules()) {
    if (info.name == std::string("ForwardOnly"))
      continue;
    const Problem problem = whole_problem(info.name, 2 * info.usual_stages);
    const Outcome wanted = alone(problem);
    testing::run_world(backend, 4, [&](const comm::Group& world) {
      SCOPED_TRACE(text(info.name, ", rank ", world.rank(), " of ", world.backend()));
      MeshRank rank(problem, world);
      rank.step();
      rank.expect_gradients(wanted);
    });
  }
}

TEST(MeshRanks, EveryScheduleEqualsOneProcess) {
  equals_one_process(Backend::Local);
}
TEST(MeshProcs, EveryScheduleEqualsOneProcess) {
  equals_one_process(Backend::Shm);
}

TEST(MeshRanks, GradientsAddUpOverSteps) {
  const Problem problem = whole_problem("ZBVZeroBubble", 4);
  Outcome wanted = alone(problem);
  Problem eight = problem;
  eight.options.microbatches *= kReplicas;
  step_alone(eight, wanted, 1);
  testing::run_world(Backend::Local, 4, [&](const comm::Group& world) {
    {
      MeshRank rank(problem, world);
      rank.sync->pause();
      rank.step();
      rank.sync->resume();
      rank.step();
      rank.expect_gradients(wanted);
    }
    // The first step's mean is the same on all ranks, so it survives the second one.
    MeshRank rank(problem, world);
    rank.step();
    rank.step();
    rank.expect_gradients(wanted);
  });
}

TEST(MeshRanks, TiedParametersAreReducedOnceTheyAreSummed) {
  Problem problem = whole_problem("1F1B", 2);
  const auto model = problem.model();
  problem.options.tied = {
      {{{0, model[0]->parameters()[0].first}, {1, model[1]->parameters()[0].first}}}};
  // As the pipeline does before the first step.
  problem.model = [make = problem.model] {
    auto stages = make();
    const c10::AutoGradMode no_grad(false);
    stages[1]->parameters()[0].second.copy_(stages[0]->parameters()[0].second);
    return stages;
  };
  const Outcome wanted = alone(problem);
  for (const Backend backend : {Backend::Local, Backend::ShmThreads})
    testing::run_world(backend, 4, [&](const comm::Group& world) {
      MeshRank rank(problem, world);
      rank.step();
      rank.expect_gradients(wanted);
    });
}

// The last stage's gradients are complete first; their reduction begins while the rank
// still works on its other stage.
TEST(MeshRanks, ReductionOverlapsTheOtherStages) {
  const Problem problem = whole_problem("InterleavedZeroBubble", 4);
  testing::run_world(Backend::Local, 4, [&](const comm::Group& world) {
    MeshRank rank(problem, world);
    // Time for the others: actions of so small a model are through at once.
    for (const sched::Action& action :
         rank.pipeline->schedule().actions[index(rank.mesh["pp"].rank())])
      if (sched::gives_weight_grad(action.kind()))
        rank.pipeline->add_after(
            action, [] { std::this_thread::sleep_for(std::chrono::milliseconds(3)); });
    rank.step();
    int64_t first_start = INT64_MAX;
    for (const auto& [stage, reducer] : rank.sync->reducers())
      for (const dp::BucketTime& bucket : reducer->stats().buckets)
        first_start = std::min(first_start, bucket.start_ns);
    int64_t last_end = 0;
    for (const ActionTime& one : rank.pipeline->timeline().actions)
      if (sched::gives_weight_grad(one.action.kind()))
        last_end = std::max(last_end, one.end_ns);
    EXPECT_LT(first_start, last_end);
  });
}

// One rank of four fails in the middle; all hear why, and go on together afterwards.
TEST(MeshRanks, AFailureReachesBothPipelines) {
  const Problem problem = whole_problem("ZBVZeroBubble", 4);
  const Outcome wanted = alone(problem);
  testing::run_world(Backend::Local, 4, [&](const comm::Group& world) {
    MeshRank rank(problem, world);
    bool fails = world.rank() == 3;
    rank.pipeline->replace(sched::ActionKind::Forward, [&](ActionContext& context) {
      if (fails && context.action().microbatch() == 2)
        throw std::runtime_error("trouble");
      context.run();
    });
    comm::barrier(world);  // or a rank hears of it while it still makes its pipeline
    const auto step = [&] { rank.step(); };
    const std::string message = fails ? testing::message_of<std::runtime_error>(step)
                                      : testing::message_of<PeerError>(step);
    EXPECT_TRUE(testing::contains(message, "trouble")) << message;
    EXPECT_TRUE(fails || testing::contains(message, "microbatch 2")) << message;
    fails = false;
    const comm::Group next = world.renew();
    const comm::Mesh mesh(next, {{"dp", kReplicas}, {"pp", next.size() / kReplicas}});
    rank.sync->replace_group(mesh["dp"]);
    rank.pipeline->rejoin(mesh["pp"]);
    for (const auto& [name, parameter] : rank.pipeline->parameters())
      parameter.mutable_grad() = at::Tensor();
    rank.step();
    rank.expect_gradients(wanted);
  });
}

TEST(MeshRanks, DifferentStagesAreRefused) {
  testing::run_world(Backend::Local, 2, [&](const comm::Group& world) {
    const at::Tensor w = at::ones({2, 2 + world.rank()}).set_requires_grad(true);
    const std::string message = testing::message_of<InvalidArgument>([&] {
      dp::StageSync({{0, {{"w", w}}}}, world);
    });
    EXPECT_TRUE(testing::contains(message, "w float32 of sizes [2, 2]")) << message;
    EXPECT_TRUE(testing::contains(message, "rank 1")) << message;
  });
}

}  // namespace
}  // namespace trireme::pipe
