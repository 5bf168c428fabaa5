// Pipelines side by side: pipeline and data parallel on a mesh equal one process.
#include "trireme/comm/mesh.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "mesh_case.h"
#include "trireme/autograd/gradient_store.h"
#include "trireme/comm/collectives.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/index.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using sched::index;
using testing::Backend;

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

/// One stage whose gradient is its input, on two replicas.
struct StoreCase {
  StoreCase(const comm::Group& world, const dp::DataParallelOptions& options)
      : mesh(world, {{"dp", 2}, {"pp", 1}}),
        stages{
            {0,
             make_stage(
                 [w = w](const Tensors& in) { return Tensors{in[0] * w}; },
                 {{"w", w}})}},
        sync(std::make_shared<dp::StageSync>(
            stage_parameters<dp::StageParameters>(stages), mesh["dp"], options)) {}
  std::unique_ptr<Pipeline> pipeline(autograd::GradientStore& store) const {
    PipelineOptions options;
    options.microbatches = 1;
    options.sync = sync;
    options.store = &store;
    const auto loss = [](const Tensors& out, const Tensors&) { return out[0].sum(); };
    return std::make_unique<Pipeline>(stages, mesh["pp"], loss, options);
  }
  at::Tensor w = at::ones({2}).set_requires_grad(true);
  comm::Mesh mesh;
  std::vector<Stage> stages;
  std::shared_ptr<dp::StageSync> sync;
};

// The pipeline's store is that of its sync.
TEST(MeshRanks, GradientsInAStoreAreReducedThere) {
  testing::run_world(Backend::Local, 2, [](const comm::Group& world) {
    const StoreCase test(world, {});
    const at::Tensor input = at::full({1, 2}, world.rank() + 1);
    autograd::GradientMap first;
    autograd::GradientMap second;
    const auto one = test.pipeline(first);
    const auto other = test.pipeline(second);
    for (int step = 1; step <= 2; ++step) {
      one->step({input}, {at::zeros({1})});
      other->step({input * 10}, {at::zeros({1})});
      EXPECT_EQ(first.get(test.w)[0].item<double>(), 1.5 * step);
      EXPECT_EQ(second.get(test.w)[0].item<double>(), 15 * step);
      EXPECT_FALSE(test.w.grad().defined());
    }
  });
}

TEST(MeshRanks, AnotherStoreOfTheSyncIsRefused) {
  testing::run_world(Backend::Local, 2, [](const comm::Group& world) {
    autograd::GradientMap map;
    autograd::GradientMap another;
    dp::DataParallelOptions options;
    options.store = &map;
    const StoreCase test(world, options);
    const at::Tensor input = at::full({1, 2}, world.rank() + 1);
    for (autograd::GradientStore* store :
         {static_cast<autograd::GradientStore*>(&another), &autograd::grad_field()})
      EXPECT_TRUE(testing::contains(
          testing::message_of<InvalidArgument>([&] { test.pipeline(*store); }),
          "DataParallelOptions::store"));
    test.pipeline(map)->step({input}, {at::zeros({1})});
    EXPECT_EQ(map.get(test.w)[0].item<double>(), 1.5);
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
