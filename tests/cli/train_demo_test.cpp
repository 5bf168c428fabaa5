#include "trireme/cli/train_demo.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::cli {
namespace {

// The same training without comm: what a person would write for one process.
std::vector<at::Tensor> train_alone(const TrainDemoOptions& options) {
  const DemoData data = demo_data();
  auto parameters = demo_parameters(0);
  for (int i = 0; i < options.steps; ++i) {
    demo_loss(parameters, data).backward();
    const c10::NoGradGuard no_grad;
    for (at::Tensor& parameter : parameters) {
      parameter.sub_(parameter.grad(), options.learning_rate);
      parameter.mutable_grad().reset();
    }
  }
  return parameters;
}

TEST(TrainDemoRanks, TheLossFallsToATenth) {
  std::vector<double> losses;
  const TrainDemoResult result =
      train_demo({.on_step = [&](int, double loss) { losses.push_back(loss); }});
  ASSERT_EQ(losses.size(), 61U);
  EXPECT_EQ(losses.front(), result.first_loss);
  EXPECT_EQ(losses.back(), result.last_loss);
  EXPECT_LT(result.last_loss, result.first_loss / 10);
  EXPECT_TRUE(std::is_sorted(losses.rbegin(), losses.rend()));
}

TEST(TrainDemoRanks, EqualsTheTrainingOfOneProcess) {
  const auto alone = train_alone({});
  for (const int ranks : {1, 2, 4}) {
    const TrainDemoResult result = train_demo({.ranks = ranks});
    ASSERT_EQ(result.parameters.size(), alone.size());
    for (size_t i = 0; i < alone.size(); ++i)
      EXPECT_TRUE(at::allclose(result.parameters[i], alone[i], 1.3e-6, 1e-5))
          << "parameter " << i << " on " << ranks << " ranks";
  }
}

TEST(TrainDemoRanks, IsTheSameEveryTime) {
  EXPECT_EQ(train_demo().last_loss, train_demo().last_loss);
}

TEST(TrainDemo, RefusesUnequalParts) {
  EXPECT_THROW(train_demo({.ranks = 3}), InvalidArgument);
  EXPECT_THROW(train_demo({.ranks = 0}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::cli
