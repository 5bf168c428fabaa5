#include "trireme/dp/low_precision.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>

#include "small_net.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::run_world;

TEST(LowPrecision, ParametersAreCopiesForAWhile) {
  const at::Tensor w = at::full({2}, 0.3).set_requires_grad(true);
  const at::Tensor count = at::ones({1}, at::kLong);
  at::Tensor y;
  {
    const LowPrecisionScope scope({{"w", w}}, at::kBFloat16);
    EXPECT_EQ(w.scalar_type(), at::kBFloat16);
    y = w.mul(2).sum();
  }
  EXPECT_EQ(w.scalar_type(), at::kFloat);
  EXPECT_EQ(w[0].item<float>(), 0.3F);
  y.backward();
  EXPECT_EQ(w.grad().to(at::kFloat)[0].item<float>(), 2);
  EXPECT_EQ(cast_floating(count, at::kBFloat16).scalar_type(), at::kLong);
  EXPECT_FALSE(cast_floating({}, at::kBFloat16).defined());
}

void trains_in_bfloat16(const comm::Group& group, c10::ScalarType reduction) {
  DataParallel model(
      small_net(),
      group,
      {.bucket_bytes = 64,
       .first_bucket_bytes = 64,
       .mixed_precision = {.parameters = at::kBFloat16, .reduction = reduction}});
  auto alone = small_net();
  for (int step = 0; step < 3; ++step) {
    const at::Tensor output = model(exact_batch(2, group.rank()));
    EXPECT_EQ(output.scalar_type(), at::kBFloat16);
    output.mean().backward();
    for (const at::Tensor& parameter : model->parameters())
      EXPECT_EQ(parameter.scalar_type(), at::kFloat);
    alone->forward(at::cat({exact_batch(2, 0), exact_batch(2, 1)})).mean().backward();
    for (size_t i = 0; i < alone->parameters().size(); ++i) {
      const at::Tensor got = model->parameters()[i].grad();
      EXPECT_EQ(got.scalar_type(), at::kFloat);
      // bfloat16 has eight bits.
      EXPECT_TRUE(at::allclose(got, alone->parameters()[i].grad(), 0.03, 0.03)) << i;
    }
    model->zero_grad();
    alone->zero_grad();
  }
}

TEST(LowPrecisionRanks, GradientsComeToTheFullParameters) {
  for (const auto reduction : {at::kFloat, at::kBFloat16})
    run_world(Backend::Local, 2, [&](const comm::Group& group) {
      trains_in_bfloat16(group, reduction);
    });
}

// These save the parameter itself for backward, and one is frozen.
struct Saves : torch::nn::Module {
  Saves() {
    conv = register_module("conv", torch::nn::Conv1d(1, 2, 3));
    norm =
        register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({2})));
    scale = register_parameter("scale", at::full({2}, 0.7));
    frozen = register_module("frozen", torch::nn::Linear(2, 2));
    for (at::Tensor& parameter : frozen->parameters())
      parameter.set_requires_grad(false);
    register_buffer("kept", at::ones({2}));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = conv->forward(x.unsqueeze(1)).squeeze(2);
    return frozen->forward(norm->forward(y) * scale).square();
  }
  torch::nn::Conv1d conv{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear frozen{nullptr};
  at::Tensor scale;
};

TEST(LowPrecisionRanks, ParametersThatBackwardNeedsThemselves) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    DataParallel model(
        std::make_shared<Saves>(),
        group,
        {.mixed_precision = {.parameters = at::kBFloat16, .buffers = at::kBFloat16}});
    EXPECT_EQ(model->buffers()[0].scalar_type(), at::kBFloat16);
    const at::Tensor x = at::arange(6, at::kFloat).view({2, 3}).mul(0.3).sin();
    for (int step = 0; step < 2; ++step) {
      {
        const auto guard = model.no_sync();
        model(x).sum().backward();
      }
      // Two forwards before one backward.
      (model(x).sum() + model(x * 2).sum()).backward();
      for (const auto& parameter : model->named_parameters()) {
        EXPECT_EQ(parameter.value().scalar_type(), at::kFloat) << parameter.key();
        if (parameter.value().requires_grad()) {
          ASSERT_TRUE(parameter.value().grad().defined()) << parameter.key();
          EXPECT_EQ(parameter.value().grad().scalar_type(), at::kFloat);
        }
      }
      model->zero_grad();
    }
    const at::NoGradGuard no_grad;
    model(x);
    EXPECT_EQ(model->scale.scalar_type(), at::kFloat) << "back after an evaluation";
  });
}

TEST(LowPrecisionRanks, UnusedParameters) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    torch::nn::Sequential net(torch::nn::Linear(kInputs, 2));
    net->register_module("other", torch::nn::Linear(2, 2));
    DataParallel model(
        net,
        group,
        {.find_unused = true, .mixed_precision = {.parameters = at::kBFloat16}});
    model(exact_batch(2)).sum().backward();
    EXPECT_TRUE(net->parameters()[0].grad().defined());
    EXPECT_FALSE(net->parameters()[2].grad().defined());
  });
}

// A difference that bfloat16 does not show.
TEST(LowPrecisionRanks, ReplicasAreComparedInFull) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    DataParallelOptions options{.check_replicas_every = 1};
    options.mixed_precision.parameters = at::kBFloat16;
    DataParallel model(small_net(), group, options);
    model(exact_batch(2)).mean().backward();
    model->zero_grad();
    if (group.rank() == 1)
      model->parameters()[0].data().add_(1e-6);
    EXPECT_TRUE(testing::contains(
        testing::message_of<Error>([&] { model(exact_batch(2)); }),
        "values of 0.weight"));
    // In the middle of a window, parameters hold copies; their full values are shared.
    EXPECT_EQ(model->parameters()[0].scalar_type(), at::kBFloat16);
    model.replica().broadcast_state(0);
    EXPECT_EQ(model->parameters()[0].scalar_type(), at::kBFloat16);
    model.replica().check_replicas();
    model(exact_batch(2)).mean().backward();
    EXPECT_EQ(model->parameters()[0].scalar_type(), at::kFloat);
    model.replica().check_replicas();
  });
}

// Sums of a window are taken in the dtype of the parameters, not in that of the copies.
TEST(LowPrecisionRanks, WindowsAddUpInFull) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    DataParallelOptions options;
    options.mixed_precision.parameters = at::kBFloat16;
    torch::nn::Linear net(torch::nn::LinearOptions(1, 1).bias(false));
    DataParallel model(net, group, options);
    {
      const auto guard = model.no_sync();
      (model(at::ones({1, 1})) * 256).sum().backward();
      for (int step = 0; step < 3; ++step)
        model(at::ones({1, 1})).sum().backward();
    }
    model(at::ones({1, 1})).sum().backward();
    EXPECT_EQ(net->weight.grad().item<float>(), 260);
  });
}

}  // namespace
}  // namespace trireme::dp
