// Stages of TorchScript.
#include "trireme/pipe/jit_stage.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/jit/api/module.h>

#include "models.h"
#include "trireme/autograd/executor.h"
#include "trireme/core/error.h"
#include "trireme/testing/call_counter.h"
#include "trireme/testing/check.h"

namespace trireme::pipe {
namespace {

using testing::contains;
using testing::same;

// A module with a weight, a buffer and this forward.
torch::jit::Module script(const std::string& forward) {
  torch::jit::Module module("Model");
  module.register_parameter("weight", numbers({4, 3}).requires_grad_(), false);
  module.register_buffer("offset", numbers({3}, 2));
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define(text(forward, "\n"));
  return module;
}

std::string refused(const std::string& forward) {
  const StagePtr stage = make_jit_stage(script(forward));
  return testing::message_of<InvalidArgument>([&] {
    stage->forward({numbers({2, 4})});
  });
}

TEST(JitStage, ComputesAndDifferentiates) {
  const auto module = script(R"(
    def forward(self, x):
        return torch.relu(torch.mm(x, self.weight) + self.offset)
  )");
  const StagePtr stage = make_jit_stage(module, "net");
  const at::Tensor x = numbers({2, 4}, 3);
  const at::Tensor weight = module.attr("weight").toTensor();
  const at::Tensor copy = weight.detach().clone().requires_grad_();
  const at::Tensor wanted = (x.mm(copy) + module.attr("offset").toTensor()).relu();
  wanted.sum().backward();
  // The executor of TorchScript changes its mind after its first runs.
  for (int run = 0; run < 4; ++run) {
    const Tensors outputs = stage->forward({x});
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_TRUE(same(outputs[0], wanted));
    outputs[0].sum().backward();
    EXPECT_TRUE(same(weight.grad(), copy.grad()));
    weight.mutable_grad().reset();
  }
}

TEST(JitStage, HasTheTensorsOfTheModule) {
  const auto module = script("def forward(self, x):\n  return x");
  const StagePtr stage = make_jit_stage(module, "net");
  ASSERT_EQ(stage->parameters().size(), 1u);
  EXPECT_EQ(stage->parameters()[0].first, "net.weight");
  EXPECT_TRUE(stage->parameters()[0].second.is_same(module.attr("weight").toTensor()));
  ASSERT_EQ(stage->buffers().size(), 1u);
  EXPECT_EQ(stage->buffers()[0].first, "net.offset");
  EXPECT_EQ(make_jit_stage(module)->buffers()[0].first, "offset");
}

// What TorchScript has compiled (after a few runs) is one node that computes all of its
// gradients: I runs it, and W must not do so again.
TEST(JitStage, ItsCompiledBackwardRunsOnce) {
  const StagePtr stage = make_jit_stage(
      script("def forward(self, x):\n  return torch.tanh(x @ self.weight)"));
  autograd::Executor executor;
  int compiled = 0;
  for (int i = 0; i < 5; ++i) {
    const at::Tensor x = at::ones({2, 4}).set_requires_grad(true);
    const at::Tensor weight = stage->parameters()[0].second;
    const Tensors outputs = stage->forward({x});
    if (outputs[0].grad_fn()->name().find("DifferentiableGraph") == std::string::npos)
      continue;
    ++compiled;
    const testing::CallCounter runs(
        at::RecordScope::BACKWARD_FUNCTION, "DifferentiableGraphBackward");
    const std::vector<autograd::NodePtr> inputs{
        torch::autograd::impl::gradient_edge(x).function};
    autograd::WeightRest rest;
    const Tensors gradients = executor.input_pass(
        {{torch::autograd::impl::gradient_edge(outputs[0])}, {at::ones({2, 3})}},
        {.inputs = inputs},
        rest);
    EXPECT_EQ(runs.count(), 1);
    EXPECT_FALSE(weight.grad().defined());
    executor.weight_pass(std::move(rest), {});
    EXPECT_EQ(runs.count(), 1) << "the weight pass has run it again";
    const at::Tensor of_tanh = 1 - outputs[0] * outputs[0];
    EXPECT_TRUE(at::allclose(gradients[0], of_tanh.mm(weight.t())));
    EXPECT_TRUE(at::allclose(weight.grad(), x.t().mm(of_tanh)));
    weight.mutable_grad().reset();
  }
  EXPECT_GE(compiled, 2);
}

TEST(JitStage, TakesAndGivesSeveralTensors) {
  const StagePtr stage = make_jit_stage(script(R"(
    def forward(self, x, y: Optional[Tensor]):
        if y is not None:
            return x + y, x, y
        return x, None, x
  )"));
  const at::Tensor x = numbers({2}), y = numbers({2}, 2);
  const Tensors both = stage->forward({x, y});
  ASSERT_EQ(both.size(), 3u);
  EXPECT_TRUE(same(both[0], x + y));
  EXPECT_TRUE(same(both[2], y));
  const Tensors one = stage->forward({x, at::Tensor()});
  ASSERT_EQ(one.size(), 3u);
  EXPECT_TRUE(same(one[0], x));
  EXPECT_FALSE(one[1].defined());

  const StagePtr list =
      make_jit_stage(script("def forward(self, x):\n  return [x, x]"));
  EXPECT_EQ(list->forward({x}).size(), 2u);
}

TEST(JitStage, Switches) {
  const StagePtr stage = make_jit_stage(script(R"(
    def forward(self, x):
        return x * 2 if self.training else x
  )"));
  const at::Tensor x = numbers({2});
  EXPECT_TRUE(stage->is_training());
  EXPECT_TRUE(same(stage->forward({x})[0], x * 2));
  stage->train(false);
  EXPECT_FALSE(stage->is_training());
  EXPECT_TRUE(same(stage->forward({x})[0], x));
}

TEST(JitStage, RefusesWhatIsNoTensor) {
  EXPECT_TRUE(contains(
      refused("def forward(self, x):\n  return 3"),
      "[pipe] expected a TorchScript module that returns a tensor, or a tuple or list "
      "of "
      "tensors, got int; return the tensors alone"));
  EXPECT_TRUE(contains(
      refused("def forward(self, x):\n  return x, 'loss'"), "got str in the tuple"));
  EXPECT_TRUE(
      contains(refused("def forward(self, x):\n  return None"), "got NoneType"));
  EXPECT_TRUE(contains(
      refused("def forward(self, x):\n  return {'x': x}"), "got Dict[str, Tensor]"));
}

// A part that was put into evaluation mode by hand stays there.
TEST(JitStage, APauseGivesEachSubmoduleItsOwnModeBack) {
  const char* const forward = "def forward(self, x):\n  return x";
  torch::jit::Module module = script(forward);
  torch::jit::Module frozen = script(forward), free = script(forward);
  module.register_module("frozen", frozen);
  module.register_module("free", free);
  frozen.eval();
  const StagePtr stage = make_jit_stage(module);
  const auto resume = stage->pause_training();
  for (const torch::jit::Module& each : {module, frozen, free})
    EXPECT_FALSE(each.is_training());
  resume();
  EXPECT_TRUE(module.is_training());
  EXPECT_FALSE(frozen.is_training());
  EXPECT_TRUE(free.is_training());
}

}  // namespace
}  // namespace trireme::pipe
