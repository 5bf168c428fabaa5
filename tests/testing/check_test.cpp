#include "trireme/testing/check.h"

#include <limits>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace trireme::testing {
namespace {

TEST(Check, ComparesBitsShapeAndDtype) {
  const at::Tensor x = at::arange(6, at::kFloat);
  EXPECT_TRUE(same(x, x.clone()));
  EXPECT_FALSE(same(x, x.reshape({2, 3})));
  EXPECT_FALSE(same(x, x.to(at::kDouble)));
  EXPECT_FALSE(same(x, at::Tensor()));
  EXPECT_TRUE(same(at::Tensor(), at::Tensor()));
}

TEST(Check, TakesNanForEqualToNan) {
  const at::Tensor nan = at::full({2}, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(same(nan, nan.clone()));
  EXPECT_FALSE(same(nan, at::zeros({2})));
}

TEST(Check, SaysWhichElementDiffers) {
  at::Tensor x = at::zeros({4});
  x[2] = 5;
  const auto result = same(x, at::zeros({4}));
  EXPECT_FALSE(result);
  EXPECT_TRUE(contains(result.message(), "the first is 2"));
}

TEST(Check, GivesTheMessageOfAnError) {
  EXPECT_EQ(
      message_of<std::runtime_error>([] { throw std::runtime_error("leak"); }), "leak");
  EXPECT_FALSE(contains("abc", "d"));
}

}  // namespace
}  // namespace trireme::testing
