#include "trireme/pipe/pipeline.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "trireme/pipe/module_stage.h"
#include "trireme/sched/generate.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using testing::Backend;

/// A stage of one matrix.
StagePtr matrix_stage(const at::Tensor& w) {
  return make_stage(
      TensorsFunction(
          [w](const Tensors& in) { return Tensors{in[0].matmul(w).tanh()}; }),
      {{"w", w}});
}

struct Case {
  std::string schedule;
  int ranks;
  int stages_per_rank;
  int microbatches;
};

void equals_one_process(Backend backend, const Case& c) {
  const int stages = c.ranks * c.stages_per_rank;
  std::vector<at::Tensor> initial;
  for (int i = 0; i < stages; ++i)
    initial.push_back(at::randn({6, 6}));
  const at::Tensor x = at::randn({2 * c.microbatches, 6});
  const at::Tensor y = at::randn({2 * c.microbatches, 6});
  const auto loss = [](const Tensors& out, const Tensors& target) {
    return (out[0] - target[0]).pow(2).mean();
  };
  std::vector<at::Tensor> whole;
  for (const at::Tensor& w : initial)
    whole.push_back(w.clone().set_requires_grad(true));
  std::vector<at::Tensor> losses;
  for (int m = 0; m < c.microbatches; ++m) {
    at::Tensor h = x.chunk(c.microbatches)[m];
    for (const at::Tensor& w : whole)
      h = h.matmul(w).tanh();
    losses.push_back(loss({h}, {y.chunk(c.microbatches)[m]}));
    torch::autograd::backward({losses.back()}, {at::full({}, 1.0 / c.microbatches)});
  }
  testing::run_world(backend, c.ranks, [&](const comm::Group& world) {
    const auto owners =
        sched::map_stages(sched::find_schedule(c.schedule).map, c.ranks, stages);
    std::vector<Stage> mine;
    std::vector<at::Tensor> weights;
    for (const int s : sched::stages_of(owners, world.rank())) {
      weights.push_back(initial[s].clone().set_requires_grad(true));
      mine.push_back({s, matrix_stage(weights.back())});
    }
    Pipeline pipeline(
        mine, world, loss, {.schedule = c.schedule, .microbatches = c.microbatches});
    Batch batch;
    if (owners.front() == world.rank())
      batch.inputs = {x};
    if (owners.back() == world.rank())
      batch.targets = {y};
    const StepResult result = pipeline.step(batch);
    if (owners.back() == world.rank()) {
      for (int m = 0; m < c.microbatches; ++m)
        EXPECT_TRUE(at::equal(result.losses[m], losses[m])) << c.schedule << " " << m;
    }
    for (size_t i = 0; i < mine.size(); ++i)
      EXPECT_TRUE(at::allclose(weights[i].grad(), whole[mine[i].index].grad()))
          << c.schedule;
  });
}

TEST(PipelineRanks, EqualsOneProcess) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    for (const Case& c : std::vector<Case>{
             {"GPipe", 2, 1, 4},
             {"1F1B", 2, 1, 4},
             {"Interleaved1F1B", 2, 2, 4},
             {"LoopedBFS", 2, 2, 4},
             {"InterleavedZeroBubble", 2, 2, 4},
             {"ZBVZeroBubble", 2, 2, 4},
             {"DualPipeV", 2, 2, 4}})
      equals_one_process(backend, c);
}

}  // namespace
}  // namespace trireme::pipe
