#include "trireme/dp/low_precision.h"

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/sgd.h>

#include "small_net.h"
#include "trireme/core/log.h"
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

TEST(LowPrecision, WritesIntoCopiesAreNoticed) {
  const at::Tensor a = at::full({3}, 0.3).set_requires_grad(true);
  const at::Tensor b = at::full({2000}, 0.3).set_requires_grad(true);
  LowPrecisionScope scope({{"a", a}, {"b", b}}, at::kBFloat16);
  EXPECT_TRUE(scope.changed().empty());
  scope.full(a).add_(1);  // what an optimizer does that steps full values
  EXPECT_TRUE(scope.changed().empty());
  scope.refresh();
  EXPECT_TRUE(scope.changed().empty());
  b.data()[1999].add_(1);  // no version tells of it
  EXPECT_EQ(scope.changed(), (std::vector<std::string>{"b"}));
}

/// A weight of 1 whose gradient is 1; bfloat16 has all of its values.
torch::nn::Linear one_weight() {
  torch::nn::Linear net(torch::nn::LinearOptions(1, 1).bias(false));
  net->weight.data().fill_(1);
  return net;
}

DataParallelOptions in_bfloat16() {
  DataParallelOptions options;
  options.mixed_precision.parameters = at::kBFloat16;
  return options;
}

// Local steps: no reduction ends what a forward has begun.
TEST(LowPrecisionRanks, StepsAfterBackwardsOfAWindow) {
  for (const bool in_window : {false, true})
    run_world(Backend::Local, 2, [&](const comm::Group& group) {
      torch::nn::Linear net = one_weight();
      DataParallel model(net, group, in_bfloat16());
      torch::optim::SGD optimizer(net->parameters(), 0.125);
      for (int step = 0; step < 4; ++step) {
        optimizer.zero_grad();
        auto guard = std::make_unique<Replica::NoSync>(model.replica().reducer());
        for (int part = 0; part < 2; ++part)
          (model(at::ones({1, 1})) * 0.5).sum().backward();
        EXPECT_EQ(net->weight.scalar_type(), at::kFloat);
        if (!in_window)
          guard.reset();
        optimizer.step();
        EXPECT_EQ(net->weight.item<float>(), 1 - 0.125F * static_cast<float>(step + 1));
      }
      optimizer.zero_grad();
      model(at::ones({1, 1})).sum().backward();
      EXPECT_EQ(net->weight.item<float>(), 0.5);
      EXPECT_EQ(net->weight.grad().item<float>(), 1);
    });
}

// Parameters hold copies after the forward that only looks.
TEST(LowPrecisionRanks, AStepOnCopiesIsAnError) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    torch::nn::Linear net = one_weight();
    DataParallel model(net, group, in_bfloat16());
    torch::optim::SGD optimizer(net->parameters(), 0.125);
    const auto looks_and_steps = [&] {
      model(at::ones({1, 1})).sum().backward();
      model(at::ones({1, 1}));
      optimizer.step();
    };
    const auto expect_refusal = [&](const std::function<void()>& f) {
      const std::string message = testing::message_of<InvalidArgument>(f);
      EXPECT_TRUE(testing::contains(message, "got a step on copies of weight"))
          << message;
      EXPECT_TRUE(testing::contains(message, "NoGradGuard")) << message;
      EXPECT_EQ(net->weight.scalar_type(), at::kFloat);
      EXPECT_EQ(net->weight.item<float>(), 1);
    };
    looks_and_steps();
    expect_refusal([&] { model(at::ones({1, 1})); });
    looks_and_steps();
    expect_refusal([&] { model.replica().broadcast_state(0); });
    looks_and_steps();
    {
      const at::NoGradGuard no_grad;
      expect_refusal([&] { model(at::ones({1, 1})); });
    }
    // Without gradients nothing stays.
    model->zero_grad();
    model(at::ones({1, 1})).sum().backward();
    {
      const at::NoGradGuard no_grad;
      model(at::ones({1, 1}));
    }
    optimizer.step();
    EXPECT_EQ(net->weight.item<float>(), 0.875);
    // Backward is the last one that can tell.
    const at::Tensor loss = model(at::ones({1, 1})).sum();
    optimizer.step();
    EXPECT_TRUE(testing::contains(
        testing::message_of<Error>([&] { loss.backward(); }),
        "got a step on copies of weight"));
    EXPECT_EQ(net->weight.item<float>(), 0.875);
  });
}

// What one backward has put back, the next one needs again.
TEST(LowPrecisionRanks, SeveralForwardsBeforeTheirBackwards) {
  for (const bool window : {false, true})
    run_world(Backend::Local, 2, [&](const comm::Group& group) {
      DataParallel model(small_net(), group, in_bfloat16());
      std::vector<at::Tensor> together;
      (model(exact_batch(2)).mean() + model(exact_batch(2, 1)).mean()).backward();
      for (const at::Tensor& parameter : model->parameters())
        together.push_back(parameter.grad().clone());
      model->zero_grad();
      const at::Tensor first = model(exact_batch(2)).mean();
      const at::Tensor second = model(exact_batch(2, 1)).mean();
      {
        std::unique_ptr<Replica::NoSync> guard;
        if (window)
          guard = std::make_unique<Replica::NoSync>(model.replica().reducer());
        first.backward();
        EXPECT_EQ(model->parameters()[0].scalar_type(), at::kFloat);
      }
      second.backward();
      for (size_t i = 0; i < together.size(); ++i) {
        EXPECT_EQ(model->parameters()[i].scalar_type(), at::kFloat);
        EXPECT_TRUE(
            at::allclose(model->parameters()[i].grad(), together[i], 0.03, 0.03))
            << i;
      }
    });
}

TEST(LowPrecisionRanks, AFailedBackwardOfAWindowPutsValuesBackToo) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    torch::nn::Linear net = one_weight();
    bool fails = true;
    net->weight.register_hook([&](const at::Tensor& gradient) {
      if (fails)
        throw std::runtime_error("trouble");
      return gradient;
    });
    DataParallel model(net, group, in_bfloat16());
    for (const bool now : {true, false}) {
      fails = now;
      const auto guard = model.no_sync();
      const at::Tensor loss = model(at::ones({1, 1})).sum();
      EXPECT_EQ(net->weight.scalar_type(), at::kBFloat16);
      if (fails)
        EXPECT_THROW(loss.backward(), std::runtime_error);
      else
        loss.backward();
      EXPECT_EQ(net->weight.scalar_type(), at::kFloat);
    }
    model(at::ones({1, 1})).sum().backward();
    EXPECT_EQ(net->weight.grad().item<float>(), 2);
  });
}

// Nothing comes after it that could fail.
TEST(LowPrecisionRanks, AStepOnCopiesAtTheEndIsWarnedOf) {
  run_world(Backend::Shm, 2, [](const comm::Group& group) {
    std::vector<std::string> lines;
    const auto scope =
        set_log_sink([&](std::string_view line) { lines.emplace_back(line); });
    torch::nn::Linear net = one_weight();
    for (const bool steps : {false, true}) {
      DataParallel model(net, group, in_bfloat16());
      model(at::ones({1, 1}));
      if (steps)
        net->weight.data().fill_(0.5);
      EXPECT_TRUE(lines.empty());
    }
    EXPECT_EQ(net->weight.item<float>(), 1);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_TRUE(testing::contains(lines[0], "got a step on copies of weight"));
  });
}

}  // namespace
}  // namespace trireme::dp
