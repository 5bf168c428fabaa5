#include "trireme/autograd/checkpoint_node.h"

#include <thread>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "checkpoint_layer.h"
#include "trireme/autograd/dropout.h"
#include "trireme/autograd/random_stream.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::autograd {
namespace {

TEST(CheckpointNode, ComputesOnceAgainForBothHalves) {
  Layer layer;
  const at::Tensor x = leaf({3, 5});
  const std::vector<NodePtr> nodes = nodes_of({x});
  Executor executor;
  Roots roots = from({layer.again(x)});
  EXPECT_EQ(layer.runs, 1);
  EXPECT_FALSE(layer.inside->is_alive());
  WeightRest weights;
  executor.input_pass(std::move(roots), {.inputs = nodes}, weights);
  EXPECT_EQ(layer.runs, 2);
  EXPECT_TRUE(layer.inside->is_alive());  // the graph waits for W
  EXPECT_FALSE(layer.w.grad().defined());
  executor.weight_pass(std::move(weights), {});
  EXPECT_EQ(layer.runs, 2);
  EXPECT_FALSE(layer.inside->is_alive());
  EXPECT_TRUE(layer.w.grad().defined());
}

TEST(CheckpointNode, PassesUndefinedGradientsOn) {
  const at::Tensor x = leaf({3}), w = leaf({3});
  const auto block = [&](const variable_list& in) {
    return variable_list{in[0] * 2, in[0] * w};
  };
  for (const bool engine : {false, true}) {
    const variable_list outputs = checkpoint(block, {x});
    const at::Tensor y = outputs[0] * 3;
    if (engine)
      torch::autograd::backward({y.sum()});
    else
      Executor().backward(from({y}), {});
    EXPECT_TRUE(testing::same(take_grad(x), at::full({3}, 6.0)));
    EXPECT_FALSE(w.grad().defined());
  }
}

TEST(CheckpointNode, GivesEngineOnlyTheGradientsThatItWants) {
  Layer layer;
  const at::Tensor x = leaf({3, 5});
  const auto grad = [&](const at::Tensor& y, const variable_list& of) {
    return torch::autograd::grad({y}, of, {at::ones_like(y.detach())});
  };
  for (const variable_list& of : {variable_list{x}, {layer.w}, {layer.b, x}}) {
    const variable_list wanted = grad(layer(x), of);
    EXPECT_TRUE(same_gradients(grad(layer.again(x), of), wanted));
  }
  EXPECT_FALSE(layer.w.grad().defined());
}

TEST(CheckpointNode, NoticesInputsThatHaveChanged) {
  Layer layer;
  const at::Tensor h = leaf({3, 5}) * 2;
  const at::Tensor y = layer.again(h);
  h.mul_(2);
  const std::string message =
      testing::message_of<c10::Error>([&] { Executor().backward(from({y}), {}); });
  EXPECT_TRUE(testing::contains(message, "inplace operation"));
  EXPECT_TRUE(testing::contains(message, "trireme::Checkpoint"));
}

TEST(CheckpointNode, RunsASecondTimeIfTheGraphIsKept) {
  Layer layer;
  const at::Tensor x = leaf({3, 5});
  const at::Tensor y = layer.again(x);
  Executor executor;
  executor.backward(from({y}), {.keep_graph = true});
  const at::Tensor once = take_grad(layer.w);
  executor.backward(from({y}), {});
  EXPECT_TRUE(testing::same(layer.w.grad(), once));
  EXPECT_EQ(layer.runs, 3);
  EXPECT_TRUE(testing::contains(
      testing::message_of<InvalidArgument>([&] { executor.backward(from({y}), {}); }),
      "keep the graph in the first"));
}

TEST(CheckpointNode, NoticesABlockThatChangesItsMind) {
  const at::Tensor x = leaf({3});
  for (const int kind : {0, 1, 2}) {
    int runs = 0;
    const auto block = [&](const variable_list& in) {
      const at::Tensor y = in[0].sin();
      if (++runs == 1)
        return variable_list{y};
      return kind == 0   ? variable_list{y, y}
             : kind == 1 ? variable_list{y.detach()}
                         : variable_list{y.sum()};
    };
    const at::Tensor y = checkpoint(block, {x})[0];
    EXPECT_THROW(Executor().backward(from({y}), {}), InvalidArgument) << kind;
  }
}

TEST(CheckpointNode, HoldsNothingAfterAFailure) {
  const at::Tensor x = leaf({3, 5});
  Layer layer;
  int runs = 0;
  const auto forward = [&] {
    const auto block = [&](const at::Tensor& in) {
      const at::Tensor y = layer(in);
      if (++runs % 2 == 0)
        throw std::runtime_error("no");
      return y;
    };
    return from({checkpoint(block, x.sin())});
  };
  Executor executor;
  const std::vector<NodePtr> nodes = nodes_of({x});
  EXPECT_THROW(executor.backward(forward(), {}), Error);
  EXPECT_FALSE(layer.inside->is_alive());
  WeightRest weights;
  EXPECT_THROW(executor.input_pass(forward(), {.inputs = nodes}, weights), Error);
  EXPECT_FALSE(layer.inside->is_alive());
  EXPECT_TRUE(weights.empty());
}

TEST(CheckpointNode, DrawsTheSameMaskAgain) {
  const at::Tensor x = leaf({8, 50});
  const auto block = [](const at::Tensor& in) {
    return dropout(in.sin(), 0.5, layer_key("here"), true);
  };
  const RandomContext context{.seed = 5, .step = 6, .first_sample = 7};
  const auto gradient_of = [&](const auto& forward) {
    at::Tensor y;
    {
      const RandomScope scope(context);
      y = forward();
    }
    const RandomScope another(RandomContext{.seed = 99});
    Executor().backward(from({y}), {});
    return take_grad(x);
  };
  const at::Tensor wanted = gradient_of([&] { return block(x); });
  EXPECT_TRUE(testing::same(gradient_of([&] { return checkpoint(block, x); }), wanted));
  EXPECT_FALSE(current_random());
}

TEST(CheckpointNode, ComputesAgainUnderTheSameAutocast) {
  const at::Tensor x = leaf({3, 5}), w = leaf({5, 5});
  std::vector<at::ScalarType> dtypes;
  const auto block = [&](const at::Tensor& in) {
    const at::Tensor y = in.matmul(w);
    dtypes.push_back(y.scalar_type());
    return y;
  };
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::ScalarType before = at::autocast::get_autocast_dtype(at::kCPU);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  variable_list outputs;
  for (int i = 0; i < 2; ++i)  // the second finds a cast in the cache
    outputs.push_back(checkpoint(block, x));
  outputs.push_back(x.matmul(w));
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::set_autocast_dtype(at::kCPU, before);
  Executor().backward(from(outputs), {});
  EXPECT_EQ(dtypes, std::vector<at::ScalarType>(4, at::kBFloat16));
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
  EXPECT_EQ(w.grad().scalar_type(), at::kFloat);
}

TEST(CheckpointNode, SetsTorchsGeneratorBackIfAsked) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor x = leaf({8, 50});
  const auto block = [](const at::Tensor& in) { return at::dropout(in, 0.5, true); };
  const at::Tensor y = checkpoint(block, x, {.preserve_generator = true});
  at::rand({10});
  const at::Tensor state = generator.get_state();
  Executor().backward(from({y}), {});
  EXPECT_TRUE(at::equal(generator.get_state(), state));
  EXPECT_TRUE(at::equal(x.grad().eq(0), y.detach().eq(0)));
}

TEST(CheckpointNodeRanks, ComputesAgainOnAnotherThread) {
  Layer layer;
  const at::Tensor x = leaf({3, 5});
  const variable_list wanted = run(
      Way::Fused, [&] { return variable_list{layer(x)}; }, {x}, layer.weights());
  variable_list got;
  const auto make = [&] {
    at::Tensor y;
    std::thread([&] {
      leaf({3}).sin();  // its numbers of nodes are others
      y = layer.again(x);
    }).join();
    return variable_list{y};
  };
  EXPECT_TRUE(same_gradients(run(Way::Fused, make, {x}, layer.weights()), wanted));
  EXPECT_TRUE(same_gradients(run(Way::Split, make, {x}, layer.weights()), wanted));
}

}  // namespace
}  // namespace trireme::autograd
