// Costs of layers, measured.
#include "trireme/pipe/measure_layers.h"

#include <chrono>
#include <thread>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "models.h"
#include "trireme/core/error.h"
#include "trireme/pipe/split_model.h"
#include "trireme/testing/check.h"

namespace trireme::pipe {
namespace {

using testing::contains;
using testing::same;

// A layer that takes at least this long.
Layer slow(const std::string& name, std::chrono::milliseconds time) {
  return layer(name, [time](const at::Tensor& x) {
    std::this_thread::sleep_for(time);
    return x + 1;
  });
}

TEST(MeasureLayers, MeasuresEachOnce) {
  const LayerList model{
      linear("first", 64, 64),
      slow("slow", std::chrono::milliseconds(3)),
      linear("last", 64, 8)};
  const auto costs = measure_layers(model, {numbers({16, 64})}, {.rounds = 3});
  ASSERT_EQ(costs.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(costs[i].name, model[i].name);
    const sched::StageCosts& each = costs[i].costs;
    EXPECT_GT(each.forward, 0);
    EXPECT_GT(each.backward, 0);
  }
  EXPECT_GE(costs[1].costs.forward, 3e-3);
  // The model's input needs no gradient; the function has no weights.
  EXPECT_EQ(costs[0].costs.input_grad, 0);
  EXPECT_EQ(costs[0].costs.weight_grad, costs[0].costs.backward);
  EXPECT_EQ(costs[1].costs.input_grad, costs[1].costs.backward);
  EXPECT_EQ(costs[1].costs.weight_grad, 0);
  EXPECT_GT(costs[2].costs.input_grad, 0);
  EXPECT_GT(costs[2].costs.weight_grad, 0);
}

TEST(MeasureLayers, CountsBytes) {
  const LayerList model{
      linear("fc", 64, 32),
      gelu("gelu"),
      batch_norm("norm", 32),
      layer("view", [](const at::Tensor& x) { return x.view({-1}); })};
  const auto costs = measure_layers(model, {numbers({16, 64})}, {.rounds = 1});
  EXPECT_EQ(costs[0].costs.weight_bytes, (64 * 32 + 32) * 4);
  EXPECT_EQ(costs[1].costs.weight_bytes, 0);
  // Weight, bias, mean and variance of float, and a count.
  EXPECT_EQ(costs[2].costs.weight_bytes, 4 * 32 * 4 + 8);
  // What it makes and saves; its input is counted where it was made.
  EXPECT_EQ(costs[0].costs.activation_bytes, 16 * 32 * 4);
  EXPECT_EQ(costs[1].costs.activation_bytes, 16 * 32 * 4);
  EXPECT_GE(costs[2].costs.activation_bytes, 16 * 32 * 4);
  EXPECT_EQ(costs[3].costs.activation_bytes, 0);
}

TEST(MeasureLayers, LeavesEverythingAsItWas) {
  const LayerList model{
      linear("fc", 4, 4), batch_norm("norm", 4), dropout("drop", 0.5)};
  std::vector<at::Tensor> before;
  for (const auto& [name, buffer] : buffers(model))
    before.push_back(buffer.clone());
  const auto& random = at::detail::getDefaultCPUGenerator();
  const at::Tensor state = random.get_state();
  measure_layers(model, {numbers({8, 4})}, {.rounds = 2});
  EXPECT_TRUE(same(random.get_state(), state));
  for (const auto& [name, parameter] : parameters(model))
    EXPECT_FALSE(parameter.grad().defined());
  const auto after = buffers(model);
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_TRUE(same(after[i].second, before[i]));
}

TEST(MeasureLayers, WhatHasNoGradientHasNoBackward) {
  const LayerList model{
      layer("shift", [](const at::Tensor& x) { return x + 1; }),
      layer(
          "both",
          [](const Tensors& in) -> Tensors {
            return {in[0] * 2, at::Tensor(), at::zeros({2}, at::kLong)};
          }),
      layer("pass", [](const Tensors& in) -> Tensors { return in; })};
  for (const auto& each : measure_layers(model, {numbers({4})}, {.rounds = 1})) {
    EXPECT_EQ(each.costs.backward, 0);
    EXPECT_EQ(each.costs.input_grad, 0);
    EXPECT_EQ(each.costs.weight_grad, 0);
  }
}

TEST(MeasureLayers, ALayerMayPassItsInputsOn) {
  const LayerList model{
      linear("fc", 4, 4),
      layer(
          "pass",
          [](const Tensors& in) -> Tensors {
            return {in[0], in[0] * 2};
          }),
      layer("sum", [](const Tensors& in) -> Tensors { return {in[0] + in[1]}; })};
  const auto costs = measure_layers(model, {numbers({2, 4})}, {.rounds = 1});
  EXPECT_GT(costs[1].costs.input_grad, 0);
  EXPECT_GT(costs[2].costs.input_grad, 0);
}

TEST(MeasureLayers, BalancesStages) {
  const LayerList model{
      slow("a", std::chrono::milliseconds(1)),
      slow("b", std::chrono::milliseconds(1)),
      slow("c", std::chrono::milliseconds(1)),
      slow("d", std::chrono::milliseconds(20))};
  const auto costs = measure_layers(model, {numbers({4})}, {.rounds = 3, .warmup = 0});
  EXPECT_EQ(outline(split_by_costs(model, costs, {0, 1})), "a b c | d");
}

TEST(MeasureLayers, RefusesNoRounds) {
  const LayerList model{gelu("gelu")};
  const auto message = [&](const MeasureOptions& options) {
    return testing::message_of<InvalidArgument>(
        [&] { measure_layers(model, {numbers({4})}, options); });
  };
  EXPECT_TRUE(contains(message({.rounds = 0}), "expected at least 1 round"));
  EXPECT_TRUE(contains(message({.warmup = -1}), "got 5 and -1"));
  EXPECT_TRUE(contains(
      testing::message_of<InvalidArgument>([] { measure_layers({}, {}); }),
      "one layer"));
}

TEST(MeasureLayers, GivesLayersWhatTheyTakeByName) {
  const LayerList model{
      saving(linear("down", 8, 8), "skip"),
      linear("middle", 8, 8),
      taking(
          layer(
              "up",
              [](const Tensors& in) -> Tensors {
                EXPECT_EQ(in.size(), 2u);
                return {in[0] + in[1]};
              }),
          {"skip"})};
  EXPECT_EQ(measure_layers(model, {numbers({4, 8})}, {.rounds = 1}).size(), 3u);
}

}  // namespace
}  // namespace trireme::pipe
