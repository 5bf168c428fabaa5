#include "trireme/dist_autograd/optimizer_state.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/optimizer.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"

namespace trireme::dist_autograd {
namespace {

using testing::contains;
using testing::message_of;

const std::vector<OptimizerKind> kKeptKinds{
    Sgd{},
    Sgd{.momentum = 0.9},
    Adam{},
    Adam{.amsgrad = true},
    AdamW{.amsgrad = true},
    Adagrad{.lr_decay = 0.1},
    RmsProp{},
    RmsProp{.momentum = 0.9, .centered = true}};

at::Tensor gradient_of_step(int step) {
  return at::arange(6).to(at::kFloat).view({2, 3}).sin() * (step + 1);
}

void step(torch::optim::Optimizer& optimizer, at::Tensor parameter, int number) {
  parameter.mutable_grad() = gradient_of_step(number);
  optimizer.step();
}

TEST(OptimizerState, AnotherOptimizerGoesOnFromIt) {
  for (const OptimizerKind& kind : kKeptKinds) {
    SCOPED_TRACE(name_of(kind));
    const at::Tensor first = at::ones({2, 3});
    const auto optimizer = make_optimizer(kind, {first});
    for (int number = 0; number < 3; ++number)
      step(*optimizer, first, number);
    const TensorMap state = read_state(*optimizer, kind, first);
    EXPECT_EQ(state.size(), state_names(kind).size());

    const at::Tensor second = first.detach().clone();
    const auto other = make_optimizer(kind, {second});
    check_state(kind, second, "it", state);
    write_state(*other, kind, second, state);
    for (int number = 3; number < 6; ++number) {
      step(*optimizer, first, number);
      step(*other, second, number);
      EXPECT_TRUE(at::equal(first, second)) << number;
    }
  }
}

TEST(OptimizerState, IsEmptyBeforeTheFirstStep) {
  for (const OptimizerKind& kind : kKeptKinds) {
    const at::Tensor parameter = at::ones({2, 3});
    const auto optimizer = make_optimizer(kind, {parameter});
    const TensorMap state = read_state(*optimizer, kind, parameter);
    EXPECT_EQ(state.empty(), !std::holds_alternative<Adagrad>(kind)) << name_of(kind);
    check_state(kind, parameter, "it", state);
    write_state(*optimizer, kind, parameter, state);
    step(*optimizer, parameter, 0);
  }
}

TEST(OptimizerState, WhatIsOfAnotherOptimizerIsRefused) {
  const at::Tensor parameter = at::ones({2, 3});
  const auto refused = [&](const OptimizerKind& kind, const TensorMap& state) {
    return message_of<InvalidArgument>(
        [&] { check_state(kind, parameter, "parameter 4", state); });
  };
  const at::Tensor zeros = at::zeros({2, 3});
  const at::Tensor one = at::full({}, 1, at::kLong);
  EXPECT_TRUE(contains(
      refused(Sgd{}, {{"momentum_buffer", zeros}}),
      "expected nothing as the state of parameter 4 for Sgd, got momentum_buffer"));
  EXPECT_TRUE(contains(
      refused(Adam{}, {{"exp_avg", zeros}, {"step", one}}), "got exp_avg, step"));
  EXPECT_TRUE(contains(refused(Adagrad{}, {}), "got nothing"));
  const auto adagrad = [&](const at::Tensor& sum, const at::Tensor& step) {
    return refused(Adagrad{}, {{"sum", sum}, {"step", step}});
  };
  EXPECT_TRUE(contains(adagrad(at::zeros({3, 2}), one), "expected sum of parameter 4"));
  EXPECT_TRUE(contains(
      adagrad(at::zeros({2, 3}, at::kDouble), one),
      "in the parameter's shape and dtype"));
  EXPECT_TRUE(contains(adagrad(at::Tensor(), one), "got nothing"));
  EXPECT_TRUE(
      contains(adagrad(zeros, at::zeros({2}, at::kLong)), "one number of int64"));
  EXPECT_TRUE(contains(adagrad(zeros, at::full({}, 1.5)), "one number of int64"));
}

}  // namespace
}  // namespace trireme::dist_autograd
