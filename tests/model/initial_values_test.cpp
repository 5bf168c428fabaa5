#include "trireme/model/initial_values.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/testing/check.h"

namespace trireme::model {
namespace {

using Kind = InitialValue::Kind;
const ParameterPlan kMatrix{"w", {200, 100}, {Kind::Normal, 0.02}};

TEST(InitialValues, FollowFromSeedAndName) {
  const at::Tensor one = make_value(kMatrix, "a", {.seed = 7});
  EXPECT_TRUE(testing::same(make_value(kMatrix, "a", {.seed = 7}), one));
  EXPECT_FALSE(at::equal(make_value(kMatrix, "b", {.seed = 7}), one));
  EXPECT_FALSE(at::equal(make_value(kMatrix, "a", {.seed = 8}), one));
}

TEST(InitialValues, TorchsOwnGeneratorStaysWhereItIs) {
  at::manual_seed(3);
  const at::Tensor wanted = at::rand({4});
  at::manual_seed(3);
  make_value(kMatrix, "a", {});
  EXPECT_TRUE(testing::same(at::rand({4}), wanted));
}

TEST(InitialValues, HaveTheirDistribution) {
  const at::Tensor drawn = make_value(kMatrix, "a", {});
  EXPECT_NEAR(drawn.std().item<double>(), 0.02, 0.0005);
  EXPECT_NEAR(drawn.mean().item<double>(), 0, 0.0005);
  EXPECT_TRUE(
      make_value({"b", {5}, {Kind::Ones, 0}}, "b", {}).eq(1).all().item<bool>());
  EXPECT_TRUE(make_value({"b", {5}, {}}, "b", {}).eq(0).all().item<bool>());
}

TEST(InitialValues, HalfPrecisionIsTheSameRounded) {
  const at::Tensor whole = make_value(kMatrix, "a", {.seed = 7});
  const at::Tensor half = make_value(kMatrix, "a", {.seed = 7, .dtype = at::kBFloat16});
  EXPECT_TRUE(testing::same(half, whole.to(at::kBFloat16)));
}

TEST(InitialValues, AreZeroForThoseWhoLoad) {
  EXPECT_TRUE(make_value(kMatrix, "a", {.initialise = false}).eq(0).all().item<bool>());
}

}  // namespace
}  // namespace trireme::model
