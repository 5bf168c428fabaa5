#include "trireme/autograd/call_node.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "lambda_node.h"
#include "logging_hooks.h"
#include "trireme/autograd/executor.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::autograd {
namespace {

using torch::autograd::AccumulateGrad;
using torch::autograd::impl::grad_accumulator;
using torch::autograd::impl::gradient_edge;

TEST(AddGradient, ReusesMemoryThatNobodyElseSees) {
  at::Tensor sum;
  add_gradient(sum, at::ones({3}));
  const void* memory = sum.data_ptr();
  add_gradient(sum, at::ones({3}));
  EXPECT_EQ(sum.data_ptr(), memory);
  EXPECT_TRUE(testing::same(sum, at::full({3}, 2.0)));
}

TEST(AddGradient, LeavesMemoryAloneThatOthersSee) {
  const at::Tensor seen = at::ones({3});
  at::Tensor sum = seen;
  add_gradient(sum, at::ones({3}));
  EXPECT_TRUE(testing::same(seen, at::ones({3})));
  at::Tensor view = seen.view({3});
  add_gradient(view, at::ones({3}));
  EXPECT_TRUE(testing::same(seen, at::ones({3})));
  at::Tensor expanded = at::ones({1}).expand({3});
  add_gradient(expanded, at::ones({3}));
  EXPECT_TRUE(testing::same(expanded, at::full({3}, 2.0)));
}

TEST(AddGradient, AddsSparseAndDense) {
  const at::Tensor dense = at::ones({2, 2});
  at::Tensor sum = at::eye(2).to_sparse();
  add_gradient(sum, at::eye(2).to_sparse());
  EXPECT_TRUE(sum.is_sparse());
  add_gradient(sum, dense.clone());
  EXPECT_TRUE(testing::same(sum, at::eye(2) * 2 + dense));
  add_gradient(sum, at::eye(2).to_sparse());
  EXPECT_TRUE(testing::same(sum, at::eye(2) * 3 + dense));
}

TEST(CheckGradients, SumsOverWhatWasBroadcast) {
  const at::Tensor x = at::ones({3}).set_requires_grad(true);
  variable_list gradients{at::ones({2, 3})};
  check_gradients({gradient_edge(x)}, gradients);
  EXPECT_TRUE(testing::same(gradients[0], at::full({3}, 2.0)));
}

TEST(CheckGradients, SaysWhoGaveAWrongOne) {
  const at::Tensor x = at::ones({3}).set_requires_grad(true);
  variable_list gradients{at::ones({4})};
  const at::Tensor y = through(x, [](variable_list given) { return given; });
  const std::string message = testing::message_of<c10::Error>(
      [&] { check_gradients({gradient_edge(x)}, gradients, y.grad_fn().get()); });
  EXPECT_TRUE(testing::contains(message, "[autograd] LambdaNode: "));
}

TEST(CallNode, RunsANodeBetweenItsHooks) {
  std::vector<std::string> log;
  const at::Tensor x = at::ones({3}).set_requires_grad(true);
  const at::Tensor y = x * 2;
  Node& node = *y.grad_fn();
  node.add_pre_hook(std::make_unique<LoggingPreHook>(log, "pre"));
  node.add_post_hook(std::make_unique<LoggingPostHook>(log, "post"));
  variable_list gradients{at::ones({3})};
  call_pre_hooks(node, gradients);
  EXPECT_TRUE(testing::same(gradients[0], at::full({3}, 1.5)));
  const variable_list outputs = call_node(node, gradients, false);
  EXPECT_TRUE(testing::same(outputs.at(0), at::full({3}, 1.5)));
  EXPECT_EQ(log.size(), 2U);
}

TEST(CallNode, RefusesAHookThatLosesGradients) {
  struct Loses : torch::autograd::FunctionPostHook {
    variable_list operator()(const variable_list&, const variable_list&) override {
      return {};
    }
  };
  const at::Tensor y = at::ones({3}).set_requires_grad(true).neg();
  y.grad_fn()->add_post_hook(std::make_unique<Loses>());
  EXPECT_TRUE(testing::contains(
      testing::message_of<InvalidArgument>(
          [&] { call_node(*y.grad_fn(), {at::ones({3})}, false); }),
      "expected a hook to keep 1 gradients, got 0"));
}

TEST(Accumulate, AddsToTheStore) {
  const at::Tensor x = at::ones({3}).set_requires_grad(true);
  const NodePtr node = grad_accumulator(x);
  auto& leaf = dynamic_cast<AccumulateGrad&>(*node);
  GradientMap store;
  accumulate(leaf, at::ones({3}), store);
  accumulate(leaf, at::Tensor(), store);
  accumulate(leaf, at::ones({3}), store);
  EXPECT_TRUE(testing::same(store.get(x), at::full({3}, 2.0)));
  EXPECT_FALSE(x.grad().defined());
}

TEST(Accumulate, IgnoresLeavesThatNeedNoGradientAnyMore) {
  const at::Tensor x = at::ones({3}).set_requires_grad(true);
  const NodePtr node = grad_accumulator(x);
  x.set_requires_grad(false);
  accumulate(dynamic_cast<AccumulateGrad&>(*node), at::ones({3}), grad_field());
  EXPECT_FALSE(x.grad().defined());
}

TEST(Accumulate, CallsPostAccumulateHooksWhereTheyFindGrad) {
  std::vector<std::string> log;
  const at::Tensor x = at::ones({3}).set_requires_grad(true);
  torch::autograd::impl::set_post_acc_grad_hooks(
      x, std::make_unique<LoggingAccumulateHook>(log, "after"));
  const NodePtr node = grad_accumulator(x);
  auto& leaf = dynamic_cast<AccumulateGrad&>(*node);
  accumulate(leaf, at::ones({3}), grad_field());
  EXPECT_EQ(log, (std::vector<std::string>{"after" + digest({at::ones({3})})}));
  GradientMap store;
  EXPECT_TRUE(testing::contains(
      testing::message_of<NotSupported>(
          [&] { accumulate(leaf, at::ones({3}), store); }),
      "use a hook on the tensor instead"));
}

// Whatever torch's engine does with them, so do we.
TEST(Accumulate, CallsHooksOfALeafThatWasFrozenAsTheEngineDoes) {
  const auto calls = [](bool engine, bool freeze) {
    std::vector<std::string> log;
    const at::Tensor x = at::ones({3}).set_requires_grad(true);
    torch::autograd::impl::set_post_acc_grad_hooks(
        x, std::make_unique<LoggingAccumulateHook>(log, "after"));
    const at::Tensor y = x * 2;
    if (freeze)
      x.set_requires_grad(false);
    if (engine)
      torch::autograd::backward({y}, {at::ones({3})});
    else
      Executor().backward({{gradient_edge(y)}, {at::ones({3})}}, {});
    EXPECT_EQ(x.grad().defined(), !freeze);
    return log;
  };
  for (const bool freeze : {false, true})
    EXPECT_EQ(calls(false, freeze), calls(true, freeze)) << freeze;
}

TEST(Accumulate, LeavesHooksToAStoreThatHoldsGradientsBack) {
  struct Later final : GradientStore {
    void accumulate(const at::Tensor&, const at::Tensor&, size_t) override {}
    at::Tensor get(const at::Tensor&) const override { return {}; }
    void set(const at::Tensor&, const at::Tensor&) override {}
    bool holds_back(const at::Tensor&) const override { return true; }
  };
  std::vector<std::string> log;
  const at::Tensor x = at::ones({3}).set_requires_grad(true);
  torch::autograd::impl::set_post_acc_grad_hooks(
      x, std::make_unique<LoggingAccumulateHook>(log, "after"));
  const NodePtr node = grad_accumulator(x);
  Later store;
  accumulate(dynamic_cast<AccumulateGrad&>(*node), at::ones({3}), store);
  EXPECT_TRUE(log.empty());
  x.mutable_grad() = at::ones({3});
  call_post_accumulate_hooks(x, grad_field());
  EXPECT_EQ(log.size(), 1U);
  EXPECT_THROW(call_post_accumulate_hooks(x, store), NotSupported);
}

TEST(CallNode, FindsNaNInAnomalyMode) {
  const auto run = [](const at::Tensor& x) {
    const at::Tensor y = x.sqrt();
    Executor().backward({{gradient_edge(y)}, {at::zeros({1})}}, {});
  };
  const at::Tensor x = at::zeros({1}).set_requires_grad(true);
  run(x);  // 0 / 0: nobody looks
  EXPECT_TRUE(x.grad().isnan().all().item<bool>());
  const torch::autograd::DetectAnomalyGuard anomaly;
  const std::string message = testing::message_of<InvalidArgument>([&] { run(x); });
  EXPECT_TRUE(testing::contains(message, "got NaN from SqrtBackward0 in number 0"));
  run(at::ones({1}).set_requires_grad(true));
}

TEST(Accumulate, RefusesALeafThatIsNoneAnyMore) {
  const at::Tensor x = at::ones({3});
  x.set_requires_grad(true);
  const NodePtr node = grad_accumulator(x);
  x.set_requires_grad(false);
  x.mul_(at::ones({3}).set_requires_grad(true));
  EXPECT_TRUE(testing::contains(
      testing::message_of<InvalidArgument>([&] {
        accumulate(dynamic_cast<AccumulateGrad&>(*node), at::ones({3}), grad_field());
      }),
      "change leaves under a NoGradGuard only"));
}

}  // namespace
}  // namespace trireme::autograd
