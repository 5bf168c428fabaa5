#include "trireme/autograd/checkpoint.h"

#include <algorithm>
#include <memory>

#include <gtest/gtest.h>

#include "checkpoint_layer.h"
#include "logging_hooks.h"
#include "random_ops.h"
#include "trireme/testing/check.h"

namespace trireme::autograd {
namespace {

TEST(Checkpoint, GivesTheGradientsOfAPlainBlock) {
  Layer first, second;
  const at::Tensor x = leaf({3, 5});
  variable_list weights = first.weights();
  weights.push_back(second.w);
  for (const Way way : {Way::Fused, Way::Split, Way::Engine}) {
    const variable_list wanted = run(
        way, [&] { return variable_list{second(first(x))}; }, {x}, weights);
    first.runs = second.runs = 0;
    const variable_list got = run(
        way, [&] { return variable_list{second.again(first.again(x))}; }, {x}, weights);
    EXPECT_TRUE(same_gradients(got, wanted));
    EXPECT_EQ(first.runs, 4);  // two passes, in each forward and once again
    EXPECT_EQ(second.runs, 4);
  }
}

/// A net of some blocks that share weights, out of random operations. All that goes
/// into a block and comes out of it gets a gradient: functions may make zeros of
/// undefined ones, and whether they are met differs.
struct RandomNet {
  explicit RandomNet(uint32_t s)
      : seed(s), numbers(s), weights(random_weights(numbers)) {
    inputs = {numbers.normal({4, 6}), numbers.normal({4, 6})};
    inputs[0].set_requires_grad(true);
    inputs[1].set_requires_grad(seed % 2 == 0);
  }
  uint32_t seed;
  RandomNumbers numbers;
  variable_list weights, inputs;

  variable_list segment(uint32_t number, const variable_list& in) const {
    RandomNumbers choice(seed * 100 + number);
    variable_list pool = in;
    for (int i = 0; i < 6; ++i) {
      const OpArguments arguments{
          pool[choice.below(pool.size())],
          pool[choice.below(pool.size())],
          weights,
          choice};
      const RandomOp op = random_ops()[choice.below(op_kinds())];
      const at::Tensor y = gives_undefined(op) ? arguments.a.sin() : op(arguments);
      pool.push_back(y.abs().max().item<double>() > 20 ? y * 0.05 : y);
    }
    return {pool.back() + in[0] * 0.5, pool[2 + choice.below(3)] - in[1] * 0.5};
  }
  /// With checkpoints, some of them inside others.
  variable_list forward(bool with_checkpoints) const {
    const auto once = [this](uint32_t number) {
      return [this, number](const variable_list& in) { return segment(number, in); };
    };
    const auto nested = [this, once](const variable_list& in) {
      return checkpoint(once(2), checkpoint(once(1), segment(0, in)));
    };
    if (with_checkpoints)
      return checkpoint(once(4), segment(3, checkpoint(nested, inputs)));
    return segment(4, segment(3, segment(2, segment(1, segment(0, inputs)))));
  }
};

TEST(Checkpoint, EqualsPlainBlocksBitForBit) {
  size_t defined = 0;
  for (uint32_t seed = 0; seed < 150; ++seed) {
    const RandomNet net(seed);
    const variable_list inputs(net.inputs.begin(), net.inputs.begin() + 2 - seed % 2);
    for (const Way way : {Way::Fused, Way::Split}) {
      const variable_list wanted = run(
          way, [&] { return net.forward(false); }, inputs, net.weights);
      const variable_list got = run(
          way, [&] { return net.forward(true); }, inputs, net.weights);
      ASSERT_TRUE(same_gradients(got, wanted)) << "net " << seed;
      for (const at::Tensor& gradient : got)
        defined += gradient.defined();
    }
  }
  EXPECT_GT(defined, 2000U);
}

TEST(Checkpoint, WorksWithoutAnInputThatNeedsAGradient) {
  Layer layer;
  const at::Tensor x = at::randn({3, 5});
  for (const Way way : {Way::Fused, Way::Split, Way::Engine}) {
    const variable_list wanted = run(
        way, [&] { return variable_list{layer(x)}; }, {}, layer.weights());
    layer.runs = 0;
    const variable_list got = run(
        way, [&] { return variable_list{layer.again(x)}; }, {}, layer.weights());
    EXPECT_TRUE(same_gradients(got, wanted));
    EXPECT_EQ(layer.runs, 4);
  }
}

TEST(Checkpoint, KeepsOnlyInputs) {
  Layer layer;
  std::unique_ptr<MemoryWatch> between;
  const auto forward = [&] {
    const at::Tensor h = leaf({3, 5}).sin();
    between = std::make_unique<MemoryWatch>(h);
    return layer.again(h);
  };
  at::Tensor y = forward();
  EXPECT_TRUE(between->is_alive());
  EXPECT_FALSE(layer.inside->is_alive());
  Executor().backward(from({y}), {});
  EXPECT_FALSE(between->is_alive());
  EXPECT_FALSE(layer.inside->is_alive());
}

TEST(Checkpoint, TakesInputsAndOutputsOfAllKinds) {
  const at::Tensor a = leaf({3}), b = leaf({3}), plain = at::randn({3}),
                   numbers = at::arange(3), w = leaf({3});
  const auto block = [&](const variable_list& in) {
    EXPECT_FALSE(in[2].defined());
    const at::Tensor product = in[0] * w * in[1];
    return variable_list{
        product, in[4] + 1, at::Tensor(), product.detach(), in[0], w, in[3] * 2};
  };
  const auto make = [&](bool again) {
    const variable_list inputs{a, b.sin(), at::Tensor(), plain, numbers};
    return again ? checkpoint(block, inputs) : block(inputs);
  };
  const variable_list wanted = make(false), got = make(true);
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(testing::same(got[i], wanted[i])) << i;
    EXPECT_EQ(
        got[i].defined() && got[i].requires_grad(),
        wanted[i].defined() && wanted[i].requires_grad())
        << i;
  }
  const auto ends = [&](bool again) {
    const variable_list outputs = make(again);
    return variable_list{outputs[0] + outputs[3] * 2, outputs[4], outputs[5]};
  };
  for (const Way way : {Way::Fused, Way::Split, Way::Engine})
    EXPECT_TRUE(same_gradients(
        run(way, [&] { return ends(true); }, {a}, {b, w}),
        run(way, [&] { return ends(false); }, {a}, {b, w})));
}

TEST(Checkpoint, CallsHooksOfParametersOnce) {
  Layer layer;
  const at::Tensor x = leaf({3, 5});
  std::vector<std::string> log;
  HookLog hooks(&log);
  std::vector<NodePtr> held;
  hooks.add_to_leaf(4, layer.w, held);  // one of each kind
  for (const Way way : {Way::Fused, Way::Split, Way::Engine}) {
    std::vector<std::vector<std::string>> logs;
    for (const bool again : {false, true}) {
      log.clear();
      // The weight is used outside too.
      const variable_list got = run(
          way,
          [&] {
            return variable_list{(again ? layer.again(x) : layer(x)).matmul(layer.w)};
          },
          {x},
          layer.weights());
      logs.push_back(log);
    }
    EXPECT_EQ(logs[0], logs[1]);
    EXPECT_EQ(logs[0].size(), 8U);
  }
}

TEST(Checkpoint, IsNotThereWithoutGradMode) {
  Layer layer;
  const c10::AutoGradMode grad_mode(false);
  const at::Tensor y = layer.again(leaf({3, 5}));
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(layer.runs, 1);
}

/// A block that uses, beside its input, a leaf of the pass and a tensor with a history,
/// none of which it names.
struct CapturingNet {
  Layer layer;
  at::Tensor x = leaf({3, 5}), memory = leaf({3, 5}), before = leaf({5, 5});

  variable_list forward(bool again) {
    const at::Tensor h = memory.sin().matmul(before);
    const auto block = [this, h](const at::Tensor& in) {
      return layer(in) * memory + h.tanh();
    };
    const at::Tensor y = again ? checkpoint(block, x.cos()) : block(x.cos());
    return {y * 2 + memory};
  }
  variable_list weights() const {
    variable_list all = layer.weights();
    all.push_back(before);
    return all;
  }
};

TEST(Checkpoint, CapturedTensorsGetTheirGradients) {
  CapturingNet net;
  for (const Way way : {Way::Fused, Way::Split, Way::Engine}) {
    const auto gradients = [&](bool again, const variable_list& inputs) {
      variable_list weights = net.weights();
      // What is no input of the pass is a weight of it.
      for (const at::Tensor& tensor : {net.x, net.memory})
        if (std::none_of(inputs.begin(), inputs.end(), [&](const at::Tensor& input) {
              return input.is_same(tensor);
            }))
          weights.push_back(tensor);
      return run(
          way, [&] { return net.forward(again); }, inputs, weights);
    };
    for (const variable_list& inputs :
         {variable_list{net.x, net.memory}, {net.memory}, {net.x}, {}}) {
      const variable_list wanted = gradients(false, inputs);
      for (const at::Tensor& gradient : wanted)
        ASSERT_TRUE(gradient.defined());
      EXPECT_TRUE(same_gradients(gradients(true, inputs), wanted))
          << static_cast<int>(way) << ", " << inputs.size() << " inputs";
    }
  }
}

TEST(Checkpoint, HooksOfCapturedTensorsFireOnce) {
  CapturingNet net;
  int calls = 0;
  net.memory.register_hook([&calls](const at::Tensor& gradient) {
    ++calls;
    return gradient * 2;
  });
  for (const Way way : {Way::Fused, Way::Split, Way::Engine}) {
    const auto gradients = [&](bool again) {
      return run(
          way, [&] { return net.forward(again); }, {net.x, net.memory}, net.weights());
    };
    const variable_list wanted = gradients(false);
    calls = 0;
    EXPECT_TRUE(same_gradients(gradients(true), wanted));
    EXPECT_EQ(calls, 2);  // two passes
  }
}

TEST(Checkpoint, BlocksInsideOthersCaptureTheirTensors) {
  Layer outer, inner;
  const at::Tensor x = leaf({3, 5}), memory = leaf({3, 5});
  const auto forward = [&](bool again) {
    const auto block = [&, again](const at::Tensor& in) {
      const at::Tensor h = outer(in);
      const auto within = [&, h, in](const at::Tensor& deep) {
        return inner(deep) * memory + h * in;
      };
      return again ? checkpoint(within, h.sin()) : within(h.sin());
    };
    return variable_list{again ? checkpoint(block, x) : block(x)};
  };
  variable_list weights = outer.weights();
  for (const at::Tensor& weight : inner.weights())
    weights.push_back(weight);
  for (const Way way : {Way::Fused, Way::Split, Way::Engine}) {
    const auto gradients = [&](bool again) {
      return run(
          way, [&] { return forward(again); }, {x, memory}, weights);
    };
    const variable_list wanted = gradients(false);
    const variable_list got = gradients(true);
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < got.size(); ++i)  // sums in a block are taken apart
      EXPECT_TRUE(at::allclose(got[i], wanted[i], 1e-4, 1e-6))
          << static_cast<int>(way) << ", " << i;
  }
}

}  // namespace
}  // namespace trireme::autograd
