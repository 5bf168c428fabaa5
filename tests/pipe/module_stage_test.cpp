// Stages of layers, modules and functions.
#include "trireme/pipe/module_stage.h"

#include <ATen/TensorOperators.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include "models.h"
#include "trireme/core/error.h"
#include "trireme/pipe/split_model.h"
#include "trireme/testing/check.h"

namespace trireme::pipe {
namespace {

using testing::contains;
using testing::same;

std::string stage_refused(const std::function<void()>& body) {
  return testing::message_of<InvalidArgument>(body);
}

// Gradients of all parameters, in order, which are then cleared.
Tensors take_gradients(const LayerList& model) {
  Tensors gradients;
  for (auto& [name, parameter] : parameters(model)) {
    gradients.push_back(parameter.grad());
    parameter.mutable_grad().reset();
  }
  return gradients;
}

TEST(ModuleStage, StagesAfterOneAnotherAreTheWholeModel) {
  const LayerList model = mlp(4, 8);
  const at::Tensor x = numbers({5, 8}), out_grad = numbers({5, 8}, 2);
  const at::Tensor whole_x = x.detach().clone().requires_grad_();
  const at::Tensor whole = run_layers(model, {whole_x})[0];
  whole.backward(out_grad);
  const Tensors wanted = take_gradients(model);
  for (int count = 1; count <= 8; ++count) {
    std::vector<at::Tensor> inputs{x.detach().clone().requires_grad_()}, outputs;
    for (LayerList& layers : split_by_parameters(model, count)) {
      outputs.push_back(make_stage(std::move(layers))->forward({inputs.back()})[0]);
      inputs.push_back(outputs.back().detach().requires_grad_());
    }
    EXPECT_TRUE(same(outputs.back(), whole));
    at::Tensor gradient = out_grad;
    for (size_t stage = outputs.size(); stage-- > 0;) {
      outputs[stage].backward(gradient);
      gradient = inputs[stage].grad();
    }
    EXPECT_TRUE(same(gradient, whole_x.grad()));
    const Tensors got = take_gradients(model);
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_TRUE(same(got[i], wanted[i]));
  }
}

TEST(ModuleStage, HasTheTensorsOfItsLayers) {
  const StagePtr stage =
      make_stage(LayerList{linear("fc", 2, 2), batch_norm("norm", 2), gelu("gelu")});
  ASSERT_EQ(stage->parameters().size(), 4u);
  EXPECT_EQ(stage->parameters()[2].first, "norm.weight");
  ASSERT_EQ(stage->buffers().size(), 3u);
  EXPECT_EQ(stage->buffers()[0].first, "norm.running_mean");
  EXPECT_FALSE(stage->may_overlap());
  stage->allow_overlap();
  EXPECT_TRUE(stage->may_overlap());
}

TEST(ModuleStage, SwitchesItsModules) {
  const LayerList layers{batch_norm("a", 2), gelu("gelu"), dropout("b", 0.5)};
  const StagePtr stage = make_stage(layers);
  EXPECT_TRUE(stage->is_training());
  stage->train(false);
  EXPECT_FALSE(stage->is_training());
  EXPECT_FALSE(layers[0].module->is_training());
  EXPECT_FALSE(layers[2].module->is_training());
  // Dropout is off.
  const at::Tensor x = numbers({4, 2});
  EXPECT_TRUE(same(stage->forward({x})[0], stage->forward({x})[0]));
  layers[2].module->train();
  EXPECT_TRUE(stage->is_training());

  const StagePtr plain = make_stage(LayerList{gelu("gelu")});
  EXPECT_TRUE(plain->is_training());
  plain->train(false);
  EXPECT_FALSE(plain->is_training());
}

TEST(ModuleStage, OfAModule) {
  const torch::nn::Linear fc(4, 3);
  const at::Tensor x = numbers({2, 4});
  for (const StagePtr& stage : {make_stage(fc), make_stage(fc.ptr())}) {
    EXPECT_TRUE(same(stage->forward({x})[0], fc.ptr()->forward(x)));
    EXPECT_EQ(stage->parameters()[0].first, "weight");
  }
  EXPECT_EQ(make_stage(fc, "model.head")->parameters()[1].first, "model.head.bias");
}

TEST(ModuleStage, OfAFunction) {
  const at::Tensor w = numbers({4, 3}).requires_grad_(), mask = numbers({4});
  const StagePtr stage = make_stage(
      [w, mask](const Tensors& in) -> Tensors {
        return {(in[0] * mask).mm(w), at::Tensor()};
      },
      {{"w", w}},
      {{"mask", mask}});
  const at::Tensor x = numbers({2, 4});
  const Tensors outputs = stage->forward({x});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_TRUE(same(outputs[0], (x * mask).mm(w)));
  EXPECT_FALSE(outputs[1].defined());
  EXPECT_TRUE(stage->parameters()[0].second.is_same(w));
  EXPECT_EQ(stage->buffers()[0].first, "mask");
  stage->train(false);
  EXPECT_FALSE(stage->is_training());
}

TEST(ModuleStage, RefusesLayersThatCannotBe) {
  EXPECT_TRUE(
      contains(stage_refused([] { make_stage(LayerList{}); }), "at least one layer"));
  EXPECT_TRUE(contains(
      stage_refused([] {
        make_stage(LayerList{gelu("a"), gelu("a")});
      }),
      "\"a\" twice"));
}

TEST(ModuleStage, AModuleThatWasFrozenStaysSoAfterAPause) {
  const Layer frozen = batch_norm("frozen", 2);
  const Layer free = batch_norm("free", 2);
  const StagePtr stage = make_stage({frozen, free});
  frozen.module->eval();
  const auto resume = stage->pause_training();
  EXPECT_FALSE(free.module->is_training());
  resume();
  EXPECT_FALSE(frozen.module->is_training());
  EXPECT_TRUE(free.module->is_training());
}

TEST(ModuleStage, RefusesFunctionsThatCannotBe) {
  const auto give = [](const Tensors& in) { return in; };
  const at::Tensor w = numbers({2}).requires_grad_();
  EXPECT_TRUE(contains(
      stage_refused([] { make_stage(TensorsFunction()); }),
      "[pipe] expected a function for a stage, got none"));
  EXPECT_TRUE(contains(
      stage_refused([&] {
        make_stage(give, {{"w", w}}, {{"w", w}});
      }),
      "[pipe] expected tensors of a stage with names of their own, got \"w\" twice"));
  EXPECT_TRUE(contains(
      stage_refused([&] {
        make_stage(give, {{"", w}});
      }),
      "got \"\""));
  EXPECT_TRUE(contains(
      stage_refused([&] {
        make_stage(give, {{"w", at::Tensor()}});
      }),
      "[pipe] expected a tensor \"w\" of a stage, got an undefined one"));
  EXPECT_TRUE(contains(
      stage_refused([&] {
        make_stage(give, {{"w", w * 2}});
      }),
      "[pipe] expected a leaf for \"w\", got the result of MulBackward"));
}

// What a stage saves comes last of its outputs, and what it takes last of its inputs.
TEST(ModuleStage, SkipsBetweenStagesAreTheLastTensors) {
  const LayerList model{
      saving(layer("a", [](const at::Tensor& x) { return x + 1; }), "one"),
      saving(layer("b", [](const at::Tensor& x) { return x * 2; }), "two"),
      taking(
          layer(
              "c",
              [](const Tensors& in) -> Tensors { return {in[0] - in[1] + in[2]}; }),
          {"two", "one"})};
  const at::Tensor x = numbers({3});
  const auto cut = split_ranges(model, {{0, 1}, {1, 3}});
  const StagePtr first = make_stage(cut[0]), second = make_stage(cut[1]);
  using Names = std::vector<std::string>;
  EXPECT_EQ(first->saved_skips(), Names{"one"});
  EXPECT_EQ(second->taken_skips(), Names{"one"});
  EXPECT_EQ(second->saved_skips(), Names{"two"});
  const Tensors between = first->forward({x});
  ASSERT_EQ(between.size(), 2u);
  const Tensors out = second->forward(between);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_TRUE(same(out[0], run_layers(model, {x})[0]));
  EXPECT_TRUE(
      contains(stage_refused([&] { second->forward({}); }), "run the stage in"));
}

}  // namespace
}  // namespace trireme::pipe
