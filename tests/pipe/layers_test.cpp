// Lists of layers, and the ways to make a layer.
#include "trireme/pipe/layers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/relu.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "models.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::pipe {
namespace {

using testing::contains;
using testing::same;

// Two in, two out.
struct PairImpl : torch::nn::Module {
  PairImpl() {
    left = register_module("left", torch::nn::Linear(4, 4));
    right = register_module("right", torch::nn::Linear(4, 4));
    scale = register_buffer("scale", numbers({4}));
  }
  Tensors forward(const Tensors& in) {
    return {left->forward(in[0]) * scale, right->forward(in[1])};
  }
  torch::nn::Linear left = nullptr, right = nullptr;
  at::Tensor scale;
};
TORCH_MODULE(Pair);

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors)
    names.push_back(name);
  return names;
}

std::string layers_refused(const LayerList& layers) {
  return testing::message_of<InvalidArgument>([&] { check_layers(layers); });
}

TEST(Layers, OfAHolderOrAPointerCallTheModule) {
  const torch::nn::Linear fc(4, 3);
  const at::Tensor x = numbers({2, 4});
  const at::Tensor wanted = fc.ptr()->forward(x);
  for (const Layer& each : {layer("fc", fc), layer("fc", fc.ptr())}) {
    EXPECT_EQ(each.name, "fc");
    EXPECT_EQ(each.module, fc.ptr());
    const Tensors outputs = each.forward({x});
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_TRUE(same(outputs[0], wanted));
  }
  EXPECT_EQ(count_parameters(layer("fc", fc)), 15);
}

TEST(Layers, OfASequentialCallItWhole) {
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::Linear(4, 2));
  const at::Tensor x = numbers({2, 4});
  const Layer whole = layer("model", model);
  EXPECT_TRUE(same(whole.forward({x})[0], model->forward(x)));
  EXPECT_EQ(
      names_of(parameters({whole})),
      (std::vector<std::string>{
          "model.0.weight", "model.0.bias", "model.1.weight", "model.1.bias"}));
}

TEST(Layers, OfAModuleOfTensors) {
  Pair pair;
  const Tensors inputs{numbers({2, 4}, 1), numbers({2, 4}, 2)};
  const Layer both = layer("pair", pair);
  const Tensors outputs = both.forward(inputs), wanted = pair->forward(inputs);
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_TRUE(same(outputs[0], wanted[0]));
  EXPECT_TRUE(same(outputs[1], wanted[1]));
  EXPECT_EQ(
      names_of(parameters({both})),
      (std::vector<std::string>{
          "pair.left.weight",
          "pair.left.bias",
          "pair.right.weight",
          "pair.right.bias"}));
  EXPECT_EQ(names_of(buffers({both})), std::vector<std::string>{"pair.scale"});
}

TEST(Layers, OfFunctions) {
  const torch::nn::Linear fc(4, 4);
  const Layer with = layer(
      "skip",
      [fc](const Tensors& in) -> Tensors {
        return {fc.ptr()->forward(in[0]), in[0]};
      },
      fc.ptr());
  const Layer without = layer("relu", [](const at::Tensor& x) { return at::relu(x); });
  const Layer sum =
      layer("sum", [](const Tensors& in) -> Tensors { return {in[0] + in[1]}; });
  EXPECT_EQ(without.module, nullptr);
  EXPECT_EQ(count_parameters(without), 0);
  EXPECT_EQ(count_parameters(with), 20);
  const at::Tensor x = numbers({2, 4});
  const Tensors outputs = run_layers({with, sum, without}, {x});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_TRUE(same(outputs[0], at::relu(fc.ptr()->forward(x) + x)));
}

TEST(Layers, HaveTheNamesOfTheWholeModel) {
  const LayerList model{
      linear("embed", 2, 2), gelu("gelu"), batch_norm("h.0", 2), linear("head", 2, 2)};
  EXPECT_EQ(
      names_of(parameters(model)),
      (std::vector<std::string>{
          "embed.weight",
          "embed.bias",
          "h.0.weight",
          "h.0.bias",
          "head.weight",
          "head.bias"}));
  EXPECT_EQ(
      names_of(buffers(model)),
      (std::vector<std::string>{
          "h.0.running_mean", "h.0.running_var", "h.0.num_batches_tracked"}));
}

TEST(Layers, ThatShareAModuleGiveItsTensorsOnce) {
  const Layer first = linear("first", 2, 2);
  EXPECT_EQ(
      names_of(parameters({first, gelu("gelu"), shared("second", first)})),
      (std::vector<std::string>{"first.weight", "first.bias"}));
}

TEST(Layers, OfOneTensorRefuseMore) {
  const Layer fc = linear("fc", 4, 4);
  const at::Tensor x = numbers({2, 4});
  EXPECT_TRUE(contains(
      testing::message_of<InvalidArgument>([&] {
        fc.forward({x, x});
      }),
      "[pipe] layer \"fc\": expected one tensor, got 2; make it a function of "
      "Tensors"));
  EXPECT_TRUE(
      contains(testing::message_of<InvalidArgument>([&] { fc.forward({}); }), "got 0"));
}

TEST(Layers, AreChecked) {
  EXPECT_NO_THROW(check_layers({linear("", 2, 2)}));
  EXPECT_TRUE(
      contains(layers_refused({}), "[pipe] expected at least one layer, got none"));
  EXPECT_TRUE(contains(
      layers_refused({gelu("a"), gelu("b"), gelu("a")}),
      "[pipe] expected layers with names of their own, got \"a\" twice"));
  EXPECT_TRUE(contains(
      layers_refused({gelu("a"), gelu("")}),
      "[pipe] expected a name for each of 2 layers, got an empty one"));
  EXPECT_TRUE(contains(
      layers_refused({layer("none", TensorsFunction())}),
      "[pipe] expected a function for layer \"none\", got none"));
  EXPECT_TRUE(contains(layers_refused({layer("none", TensorFunction())}), "\"none\""));
}

/// A small U: what goes down is added again on the way up.
LayerList u_net() {
  const auto add = [](const Tensors& in) -> Tensors { return {in[0] * 2 + in[1]}; };
  return {
      saving(layer("down0", [](const at::Tensor& x) { return x + 1; }), "top"),
      saving(layer("down1", [](const at::Tensor& x) { return x * 3; }), "low"),
      layer("middle", [](const at::Tensor& x) { return x - 5; }),
      taking(layer("up1", add), {"low"}),
      taking(layer("up0", add), {"top"})};
}

TEST(Layers, WhatIsSavedGoesOnAndIsTakenLater) {
  const at::Tensor x = numbers({2, 4});
  const at::Tensor top = x + 1, low = top * 3;
  const at::Tensor up1 = (low - 5) * 2 + low;
  EXPECT_TRUE(same(run_layers(u_net(), {x})[0], up1 * 2 + top));
  EXPECT_NO_THROW(check_skips(u_net()));
}

TEST(Layers, PartsOfAModelTellWhatTheySaveAndTake) {
  const LayerList model = u_net();
  const LayerList first(model.begin(), model.begin() + 2);
  const LayerList second(model.begin() + 2, model.end());
  using Names = std::vector<std::string>;
  EXPECT_EQ(saved_skips(first), (Names{"top", "low"}));
  EXPECT_EQ(taken_skips(first), Names{});
  EXPECT_EQ(taken_skips(second), (Names{"low", "top"}));
  // What stays within is not taken from outside.
  EXPECT_EQ(taken_skips(model), Names{});
}

TEST(Layers, SkipsThatLeadNowhereAreRefused) {
  const auto refused_skips = [](const LayerList& layers) {
    return testing::message_of<InvalidArgument>([&] { check_skips(layers); });
  };
  LayerList model = u_net();
  std::swap(model[0], model[4]);
  EXPECT_TRUE(contains(
      refused_skips(model), "a layer before \"up0\" to save \"top\", which it takes"));
  model = u_net();
  model[4].takes.clear();
  EXPECT_TRUE(contains(refused_skips(model), "a layer that takes \"top\", got none"));
  model = u_net();
  model[1].saves[0].name = "top";
  EXPECT_TRUE(contains(refused_skips(model), "\"top\" again from layer \"down1\""));
  model = u_net();
  model[0].saves[0].output = 3;
  EXPECT_TRUE(contains(
      testing::message_of<InvalidArgument>([&] {
        run_layers(model, {numbers({2, 4})});
      }),
      "layer \"down0\" to have an output 3, which it saves as \"top\", got 1"));
}

TEST(Layers, RefuseToChangeInPlaceWhatWasSaved) {
  const LayerList layers{
      saving(layer("a", [](const at::Tensor& x) { return x + 1; }), "skip"),
      layer("b", [](const at::Tensor& x) { return x.relu_(); }),
      taking(
          layer("c", [](const Tensors& in) -> Tensors { return {in[0] + in[1]}; }),
          {"skip"})};
  EXPECT_TRUE(contains(
      testing::message_of<InvalidArgument>([&] {
        run_layers(layers, {at::randn({2, 3})});
      }),
      "what is saved as \"skip\" to stay as it is"));
}

}  // namespace
}  // namespace trireme::pipe
