#include "trireme/model/tokens.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/model/shared_parameters.h"
#include "trireme/testing/check.h"

namespace trireme::model {
namespace {

using testing::contains;
using testing::message_of;

TEST(Tokens, AreNumbersOfTheVocabulary) {
  check_tokens(at::zeros({2, 3}, at::kLong));
  check_tokens(at::zeros({2, 3}, at::kInt));
  for (const at::Tensor& wrong :
       {at::zeros({3}, at::kLong), at::zeros({2, 3}), at::Tensor()})
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { check_tokens(wrong); }),
        "expected tokens ["));
}

TEST(Tokens, OutOfRangeAreNamed) {
  const at::Tensor table = at::arange(10, at::kFloat).reshape({5, 2});
  EXPECT_TRUE(
      testing::same(look_up(table, at::full({1, 1}, 4, at::kLong))[0][0], table[4]));
  for (const int64_t wrong : {-1, 5})
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] {
          look_up(table, at::full({1, 2}, wrong, at::kLong));
        }),
        text("tokens in [0, 5) (\"vocab_size\"), got ", wrong)));
  EXPECT_EQ(look_up(table, at::zeros({2, 0}, at::kLong)).numel(), 0);
}

TEST(Tokens, TooManyAreRefused) {
  check_positions(8, 8, "n_positions");
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] { check_positions(9, 8, "n_positions"); }),
      "at most 8 tokens (\"n_positions\"), got 9"));
}

TEST(Tokens, TheHeadGivesLogits) {
  const LayerPlan plan = plan_head(7, 3, 0.02);
  SharedParameters shared;
  const pipe::Layer head = plan.build({}, shared);
  EXPECT_EQ(head.name, "lm_head");
  const at::Tensor x = at::ones({2, 5, 3});
  EXPECT_EQ(head.forward({x})[0].sizes(), at::IntArrayRef({2, 5, 7}));
  EXPECT_EQ(plan.forward_flops_per_token(100), 2 * 3 * 7);
  EXPECT_EQ(plan.output_elements_per_token, 7);
}

}  // namespace
}  // namespace trireme::model
