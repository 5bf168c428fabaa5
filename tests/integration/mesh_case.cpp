#include "mesh_case.h"

#include <ATen/ATen.h>

#include "trireme/core/error.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/index.h"

namespace trireme::pipe {
namespace {

using sched::index;

/// This replica's rows.
Batch share_of(const Batch& whole, int replica) {
  Batch mine = whole;
  for (Tensors* tensors : {&mine.inputs, &mine.targets})
    for (at::Tensor& tensor : *tensors)
      tensor = tensor.tensor_split(kReplicas)[index(replica)].clone();
  mine.first_sample = replica * whole.inputs[0].size(0) / kReplicas;
  return mine;
}

::testing::AssertionResult are_close(
    const at::Tensor& got, const at::Tensor& wanted, const Tolerance& tolerance) {
  if (tolerance.share == 0) {
    if (at::allclose(got, wanted, tolerance.relative, tolerance.absolute))
      return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << "they differ by up to " << (got - wanted).abs().max().item<double>();
  }
  const at::Tensor exact = wanted.to(at::kDouble);
  const double share =
      ((got.to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
  return (share <= tolerance.share ? ::testing::AssertionSuccess()
                                   : ::testing::AssertionFailure())
         << "they differ by " << share << " of the norm";
}

}  // namespace

MeshRank::MeshRank(const Problem& whole, const comm::Group& world, const Maker& make)
    : mesh(world, {{"dp", kReplicas}, {"pp", world.size() / kReplicas}}),
      problem(whole),
      model(make ? make(mesh["dp"]) : whole.model()) {
  problem.batch = share_of(whole.batch, mesh.coordinate("dp"));
  const auto owners = place_stages(problem, mesh.size("pp"));
  std::vector<Stage> mine;
  for (const int stage : sched::stages_of(owners, mesh["pp"].rank())) {
    mine.push_back({stage, model[index(stage)]});
    mine.back().module->allow_overlap(problem.may_overlap);
  }
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

StepResult MeshRank::step() {
  Batch mine = problem.batch;
  if (!has_first)
    mine.inputs.clear();
  if (!has_last)
    mine.targets.clear();
  return pipeline->step(mine);
}

void MeshRank::expect_gradients(
    const Outcome& wanted, const Tolerance& tolerance) const {
  for (const Stage& stage : pipeline->stages()) {
    const NamedTensors there = wanted.model[index(stage.index)]->parameters();
    const NamedTensors here = stage.module->parameters();
    ASSERT_EQ(here.size(), there.size());
    for (size_t i = 0; i < here.size(); ++i) {
      const at::Tensor got = here[i].second.grad();
      const at::Tensor other = there[i].second.grad();
      ASSERT_TRUE(got.defined() && other.defined())
          << "stage " << stage.index << ", " << here[i].first;
      EXPECT_GT(other.abs().max().item<double>(), 0) << here[i].first;
      EXPECT_TRUE(are_close(got, other, tolerance))
          << "stage " << stage.index << ", " << here[i].first;
    }
  }
}

void MeshRank::expect_losses(const Outcome& wanted, const StepResult& got) const {
  const size_t first = index(mesh.coordinate("dp")) * got.losses.size();
  ASSERT_EQ(got.losses.size(), has_last ? wanted.losses.size() / kReplicas : 0);
  for (size_t m = 0; m < got.losses.size(); ++m)
    EXPECT_TRUE(close(got.losses[m], wanted.losses[first + m])) << "microbatch " << m;
}

Problem whole_problem(const std::string& schedule, int stages) {
  Problem problem = dense_problem(schedule, stages, 4, 16);
  problem.options.return_outputs = false;
  return problem;
}

Outcome alone(Problem problem) {
  problem.options.microbatches *= kReplicas;
  return run_alone(problem);
}

}  // namespace trireme::pipe
