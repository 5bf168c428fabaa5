#include "trireme/pipe/forward_context.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::pipe {
namespace {

using testing::contains;
using testing::message_of;

TEST(ForwardContext, IsThatOfTheInnermostScope) {
  EXPECT_EQ(forward_context(), nullptr);
  {
    const ForwardScope outer({.stage = 1, .microbatch = 2, .step = 9});
    ASSERT_NE(forward_context(), nullptr);
    EXPECT_EQ(forward_context()->stage, 1);
    {
      const ForwardScope inner({.stage = 4});
      EXPECT_EQ(forward_context()->stage, 4);
    }
    EXPECT_EQ(forward_context()->microbatch, 2);
    EXPECT_EQ(forward_context()->step, 9);
  }
  EXPECT_EQ(forward_context(), nullptr);
}

TEST(ForwardContext, LossesGoToTheScope) {
  std::vector<at::Tensor> losses;
  const ForwardScope scope({.stage = 3, .microbatch = 1}, &losses);
  add_loss(at::ones({}));
  add_loss(at::ones({1}));
  EXPECT_EQ(losses.size(), 2U);
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { add_loss(at::ones({2})); }),
      "with one element for stage 3, microbatch 1, got a tensor of 2; "));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { add_loss(at::Tensor()); }),
      "an undefined tensor"));
  // A backward that computes a block again takes none.
  const ForwardScope again({.stage = 3});
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { add_loss(at::ones({})); }), "from outside"));
}

TEST(ForwardContext, OutsideOfAPipelineThereIsNothingToAddTo) {
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { add_loss(at::ones({})); }), "from outside"));
}

}  // namespace
}  // namespace trireme::pipe
