#include "trireme/dp/loss_scaler.h"

#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;

at::Tensor parameter_with(float gradient) {
  at::Tensor parameter = at::zeros({1}).set_requires_grad(true);
  parameter.mutable_grad() = at::full({1}, gradient);
  return parameter;
}

TEST(LossScaler, ScalesTheLossAndUnscalesTheGradients) {
  LossScaler scaler({.initial = 8});
  EXPECT_EQ(scaler.scale(at::ones({})).item<float>(), 8);
  const at::Tensor parameter = parameter_with(16);
  int steps = 0;
  EXPECT_TRUE(scaler.step({parameter}, [&] {
    ++steps;
    EXPECT_EQ(parameter.grad().item<float>(), 2);
  }));
  EXPECT_EQ(steps, 1);
}

TEST(LossScaler, SkipsAStepThatOverflowedAndBacksOff) {
  LossScaler scaler({.initial = 8, .growth_interval = 2});
  int steps = 0;
  const auto step = [&](float gradient) {
    return scaler.step({parameter_with(gradient)}, [&] { ++steps; });
  };
  EXPECT_FALSE(step(INFINITY));
  EXPECT_EQ(scaler.value(), 4);
  EXPECT_FALSE(step(NAN));
  EXPECT_EQ(scaler.value(), 2);
  EXPECT_TRUE(step(1));
  EXPECT_EQ(scaler.value(), 2);
  EXPECT_TRUE(step(1));
  EXPECT_EQ(scaler.value(), 4) << "two good ones in a row";
  EXPECT_EQ(steps, 2);
}

TEST(LossScaler, UnscaledOnceAStep) {
  LossScaler scaler({.initial = 4});
  const at::Tensor parameter = parameter_with(8);
  EXPECT_TRUE(scaler.unscale({parameter}));
  EXPECT_EQ(parameter.grad().item<float>(), 2);
  EXPECT_THROW(scaler.unscale({parameter}), InvalidArgument);
  scaler.step({parameter}, [] {});
  EXPECT_EQ(parameter.grad().item<float>(), 2);
}

TEST(LossScaler, GoesOnFromAState) {
  LossScaler scaler({.growth_interval = 3});
  scaler.load({.scale = 16, .good_steps = 2});
  scaler.step({parameter_with(1)}, [] {});
  EXPECT_EQ(scaler.state().scale, 32);
  EXPECT_EQ(scaler.state().good_steps, 0);
  EXPECT_THROW(scaler.load({.scale = 0}), InvalidArgument);
  EXPECT_THROW(LossScaler({.backoff = 1}), InvalidArgument);
}

TEST(LossScalerRanks, AllRanksOrNone) {
  testing::run_world(Backend::Local, 3, [](const comm::Group& group) {
    LossScaler scaler({.initial = 4});
    int steps = 0;
    const float gradient = group.rank() == 2 ? INFINITY : 1.F;
    EXPECT_FALSE(scaler.step({parameter_with(gradient)}, [&] { ++steps; }, {group}));
    EXPECT_EQ(steps, 0);
    EXPECT_EQ(scaler.value(), 2);
    EXPECT_TRUE(scaler.step({parameter_with(1)}, [&] { ++steps; }, {group}));
  });
}

// 2^-15 of a small gradient is 0 in float16.
TEST(LossScaler, GradientsInFloat16AreRefused) {
  LossScaler scaler({.initial = 32768});
  at::Tensor parameter = at::zeros({1}, at::kHalf).set_requires_grad(true);
  parameter.mutable_grad() = at::full({1}, 1e-4, at::kHalf);
  const at::Tensor wide = parameter_with(32768);
  EXPECT_TRUE(testing::contains(
      testing::message_of<InvalidArgument>([&] {
        scaler.unscale({wide, parameter});
      }),
      "got float16"));
  EXPECT_EQ(wide.grad().item<float>(), 32768) << "nothing was changed";
  parameter.mutable_grad() = at::full({1}, 1e-4, at::kBFloat16);
  EXPECT_TRUE(scaler.unscale({wide, parameter}));
}

}  // namespace
}  // namespace trireme::dp
