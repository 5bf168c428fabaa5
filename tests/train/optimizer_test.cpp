#include "trireme/train/optimizer.h"

#include <cmath>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::train {
namespace {

at::Tensor leaf(double first, at::ScalarType dtype = at::kFloat) {
  return at::arange(5, at::kFloat).add(first).to(dtype).set_requires_grad(true);
}

void set_grad(at::Tensor& tensor, int step) {
  tensor.mutable_grad() =
      at::arange(5, at::kFloat).add(step).sin().to(tensor.scalar_type());
}

TEST(Optimizer, AdamWIsWhatItsFormulaSays) {
  const OptimizerConfig config{
      .lr = 0.1, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
  at::Tensor weight = leaf(1);
  Optimizer optimizer({{"w", weight}}, config);
  at::Tensor expected = weight.detach().to(at::kDouble).clone();
  at::Tensor first = at::zeros_like(expected), second = at::zeros_like(expected);
  for (int step = 1; step <= 5; ++step) {
    set_grad(weight, step);
    const at::Tensor gradient = weight.grad().to(at::kDouble);
    expected = expected * (1 - 0.01 * config.weight_decay);
    first = first * 0.9 + gradient * 0.1;
    second = second * 0.95 + gradient * gradient * 0.05;
    const at::Tensor scale = (second / (1 - std::pow(0.95, step))).sqrt() + config.eps;
    expected = expected - 0.01 * (first / (1 - std::pow(0.9, step))) / scale;
    optimizer.step(0.01);
  }
  EXPECT_TRUE(at::allclose(weight.detach().to(at::kDouble), expected, 1.3e-6, 1e-6));
}

TEST(Optimizer, SgdIsWhatItsFormulaSays) {
  at::Tensor weight = leaf(1);
  Optimizer optimizer(
      {{"w", weight}}, {.name = "SGD", .weight_decay = 0.1, .momentum = 0.9});
  at::Tensor expected = weight.detach().to(at::kDouble).clone();
  at::Tensor momentum = at::zeros_like(expected);
  for (int step = 1; step <= 4; ++step) {
    set_grad(weight, step);
    momentum = momentum * 0.9 + weight.grad().to(at::kDouble) + expected * 0.1;
    expected = expected - 0.01 * momentum;
    optimizer.step(0.01);
  }
  EXPECT_TRUE(at::allclose(weight.detach().to(at::kDouble), expected, 1.3e-6, 1e-6));
}

TEST(Optimizer, PlainSgdHasNoState) {
  at::Tensor weight = leaf(1);
  Optimizer optimizer({{"w", weight}}, {.name = "SGD", .weight_decay = 0});
  const at::Tensor before = weight.detach().clone();
  set_grad(weight, 1);
  optimizer.step(0.5);
  EXPECT_TRUE(at::equal(weight.detach(), before - 0.5 * weight.grad()));
  ASSERT_EQ(optimizer.state().size(), 1U);
  EXPECT_EQ(optimizer.state()[0].first, "step.w");
}

TEST(Optimizer, MastersKeepWhatRoundingWouldLose) {
  at::Tensor weight = leaf(100, at::kBFloat16);
  Optimizer optimizer({{"w", weight}}, {.name = "SGD", .weight_decay = 0});
  const at::Tensor before = weight.detach().clone();
  for (int i = 0; i < 100; ++i) {
    weight.mutable_grad() = at::ones({5}, at::kBFloat16);
    optimizer.step(0.05);  // a tenth of what bfloat16 sees at 100
  }
  EXPECT_TRUE(
      at::allclose(weight.detach().to(at::kFloat), before.to(at::kFloat) - 5, 0, 0.5));
}

TEST(Optimizer, AFactorCutsTheGradients) {
  for (const char* name : {"AdamW", "SGD"}) {
    at::Tensor cut = leaf(1);
    at::Tensor whole = leaf(1);
    Optimizer one({{"w", cut}}, {.name = name, .momentum = 0.5});
    Optimizer other({{"w", whole}}, {.name = name, .momentum = 0.5});
    for (int step = 1; step <= 3; ++step) {
      set_grad(cut, step);
      set_grad(whole, step);
      whole.mutable_grad().mul_(0.25);
      one.step(0.1, 0.25);  // a power of two, so nothing is rounded
      other.step(0.1);
    }
    EXPECT_TRUE(at::equal(cut, whole)) << name;
  }
}

TEST(Optimizer, AParameterWithoutGradientStays) {
  at::Tensor used = leaf(1);
  at::Tensor unused = leaf(2);
  Optimizer optimizer({{"a", used}, {"b", unused}}, {});
  const at::Tensor before = unused.detach().clone();
  set_grad(used, 1);
  optimizer.step(0.1);
  EXPECT_TRUE(at::equal(unused.detach(), before));
  optimizer.zero_grad();
  EXPECT_FALSE(used.grad().defined());
}

TEST(Optimizer, StateHasNamesAndCanBeWritten) {
  at::Tensor one = leaf(1);
  at::Tensor other = leaf(1);
  Optimizer first({{"w", one}}, {});
  Optimizer second({{"w", other}}, {});
  set_grad(one, 1);
  first.step(0.1);
  const c10::NoGradGuard no_grad;
  other.copy_(one);
  const NamedTensors from = first.state();
  const NamedTensors to = second.state();
  ASSERT_EQ(from.size(), 3U);
  EXPECT_EQ(from[0].first, "exp_avg.w");
  EXPECT_EQ(from[1].first, "exp_avg_sq.w");
  for (size_t i = 0; i < from.size(); ++i)
    at::Tensor(to[i].second).copy_(from[i].second);
  set_grad(one, 2);
  set_grad(other, 2);
  first.step(0.1);
  second.step(0.1);
  EXPECT_TRUE(at::equal(one, other));
}

TEST(Optimizer, ItsKindsOfStateAreKnownBeforeItIsMade) {
  for (const OptimizerConfig& config :
       {OptimizerConfig{},
        OptimizerConfig{.name = "SGD"},
        OptimizerConfig{.name = "SGD", .momentum = 0.9}}) {
    std::vector<std::string> names;
    for (const std::string& kind : state_kinds(config))
      names.push_back(kind + ".w");
    names.emplace_back("step.w");
    std::vector<std::string> found;
    for (const auto& [name, tensor] : Optimizer({{"w", leaf(1)}}, config).state())
      found.push_back(name);
    EXPECT_EQ(found, names);
  }
}

TEST(Optimizer, RefusesWhatIsNoParameter) {
  EXPECT_THROW(Optimizer({{"w", at::ones({2}, at::kLong)}}, {}), InvalidArgument);
  EXPECT_THROW(Optimizer({{"w", at::Tensor()}}, {}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::train
