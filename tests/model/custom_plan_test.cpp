#include "trireme/model/custom_plan.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include "trireme/core/error.h"
#include "trireme/model/build_stages.h"
#include "trireme/testing/check.h"

namespace trireme::model {
namespace {

using testing::contains;
using testing::message_of;

CustomLayer linear(const std::string& name, int64_t in, int64_t out) {
  return {name, [in, out](const BuildOptions&) {
            return pipe::layer("", torch::nn::Linear(in, out));
          }};
}

CustomModel small() {
  CustomModel model{.type = "mlp", .config_json = "{}"};
  model.layers = {
      linear("in", 8, 16),
      {"norm",
       [](const BuildOptions&) {
         return pipe::layer(
             "", torch::nn::LayerNorm(torch::nn::LayerNormOptions({16})));
       }},
      {"tanh",
       [](const BuildOptions&) {
         return pipe::layer("", [](const at::Tensor& x) { return at::tanh(x); });
       }},
      linear("out", 16, 8)};
  return model;
}

TEST(CustomPlan, HasTheLayersParameters) {
  const ModelPlan plan = plan_of_layers(small());
  EXPECT_EQ(plan.count_parameters(), 8 * 16 + 16 + 2 * 16 + 16 * 8 + 8);
  EXPECT_EQ(plan.layers[0].parameters[0].name, "in.weight");
  EXPECT_EQ(plan.layers[0].parameters[0].sizes, (std::vector<int64_t>{16, 8}));
  EXPECT_EQ(plan.layers[2].parameters.size(), 0U);
  EXPECT_EQ(plan.layers[3].forward_flops_per_token(10), 2 * (16 * 8 + 8));
  EXPECT_FALSE(plan.shares_tied);
}

TEST(CustomPlan, FirstValuesDoNotDependOnTheLayout) {
  const ModelPlan plan = plan_of_layers(small());
  const auto whole = build_layers(plan, {.seed = 5});
  const auto last = build_stages(plan, {{3, 4}}, {.seed = 5})[0];
  const auto wanted = pipe::parameters({whole[3]}), got = pipe::parameters(last);
  ASSERT_EQ(got.size(), 2U);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(testing::same(got[i].second, wanted[i].second)) << got[i].first;
  EXPECT_EQ(got[1].second.abs().sum().item<double>(), 0);                      // bias
  EXPECT_EQ(pipe::parameters({whole[1]})[0].second.sum().item<double>(), 16);  // norm
  EXPECT_TRUE(got[0].second.requires_grad());
}

TEST(CustomPlan, TakesAnInitialiserAndADtype) {
  CustomModel model = small();
  model.initialise = [](const std::string&, at::Tensor& value, const at::Generator&) {
    value.fill_(0.5);
  };
  const auto layers = build_layers(plan_of_layers(model), {.dtype = at::kBFloat16});
  for (const auto& [name, value] : pipe::parameters(layers)) {
    EXPECT_EQ(value.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(value.eq(0.5).all().item<bool>()) << name;
  }
  const at::Tensor y =
      pipe::run_layers(layers, {at::ones({2, 8}, at::kBFloat16)}).at(0);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({2, 8}));
}

TEST(CustomPlan, BlocksMayBeCheckpointed) {
  CustomModel model = small();
  int runs = 0;
  model.layers[2].work.is_block = true;
  model.layers[2].make = [&runs](const BuildOptions&) {
    return pipe::layer("", [&runs](const at::Tensor& x) {
      ++runs;
      return at::tanh(x);
    });
  };
  const auto layers = build_layers(plan_of_layers(model), {.checkpoint = true});
  pipe::run_layers(layers, {at::ones({2, 8})}).at(0).sum().backward();
  EXPECT_EQ(runs, 2);
}

TEST(CustomPlan, TiedOnesBeginEqualAndAreDeclared) {
  CustomModel model{.type = "tied", .config_json = "{}"};
  model.layers = {linear("a", 8, 8), linear("b", 8, 8)};
  model.tied = {{"a.weight", "b.weight"}};
  const ModelPlan plan = plan_of_layers(model);
  EXPECT_EQ(plan.count_parameters(), 64 + 8 + 8);
  const auto all = pipe::parameters(build_layers(plan, {}));
  EXPECT_TRUE(testing::same(all[0].second, all[2].second));
  // Two tensors, also in one stage: the pipeline sums their gradients.
  EXPECT_EQ(
      pipe::to_text(tied_places(plan, {{0, 2}}).at(0)),
      "Tied{{0, \"a.weight\"}, {0, \"b.weight\"}}");
}

TEST(CustomPlan, RefusesByName) {
  const auto refuses = [](const CustomModel& model, const char* part) {
    EXPECT_TRUE(
        contains(message_of<InvalidArgument>([&] { plan_of_layers(model); }), part));
  };
  refuses({.type = "none"}, "at least one layer");
  CustomModel twice = small();
  twice.layers.push_back(linear("in", 8, 8));
  refuses(twice, "\"in\" twice");
  CustomModel nameless = small();
  nameless.layers[0].name = "";
  refuses(nameless, "a name and a function");
  CustomModel no_function = small();
  no_function.layers[0].make = nullptr;
  refuses(no_function, "\"in\" without a function");
  CustomModel empty = small();
  empty.layers[0].make = [](const BuildOptions&) { return pipe::Layer{}; };
  refuses(empty, "from the maker of \"in\"");
  CustomModel tied = small();
  tied.tied = {{"in.weight", "other.weight"}};
  refuses(tied, "got \"other.weight\"");
  CustomModel no_values = small();
  no_values.initialise = nullptr;
  refuses(no_values, "first values");
}

}  // namespace
}  // namespace trireme::model
