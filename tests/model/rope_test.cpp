#include "trireme/model/rope.h"

#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "small_models.h"
#include "trireme/testing/check.h"

namespace trireme::model {
namespace {

TEST(Rope, FrequenciesFall) {
  LlamaConfig config = small_llama();
  config.head_dim = 8;
  const at::Tensor plain = rope_frequencies(config);
  ASSERT_EQ(plain.sizes(), at::IntArrayRef({4}));
  for (int i = 0; i < 4; ++i)
    EXPECT_NEAR(plain[i].item<double>(), std::pow(10000, -i / 4.0), 1e-6);
  config.rope_scaling = {.rope_type = "linear", .factor = 4};
  EXPECT_TRUE(at::allclose(rope_frequencies(config) * 4, plain));
}

TEST(Rope, Llama3StretchesLongWavesOnly) {
  LlamaConfig config = small_llama();
  config.head_dim = 128;
  const at::Tensor plain = rope_frequencies(config);
  config.rope_scaling = {"llama3", 8, 1, 4, 8192};
  const at::Tensor share = rope_frequencies(config) / plain;
  EXPECT_EQ(share[0].item<double>(), 1);
  EXPECT_NEAR(share[63].item<double>(), 1.0 / 8, 1e-6);
  EXPECT_TRUE((share.diff() <= 1e-6).all().item<bool>());
}

TEST(Rope, TurnsHalvesOfAHead) {
  LlamaConfig config = small_llama();
  config.head_dim = 4;
  RopeTable table(config);
  const at::Tensor x = at::arange(1, 1 + 2 * 3 * 4, at::kFloat).reshape({1, 2, 3, 4});
  const at::Tensor y = turn(x, table.part(5, 2, x));
  const at::Tensor frequencies = rope_frequencies(config);
  for (int position = 0; position < 2; ++position)
    for (int head = 0; head < 3; ++head)
      for (int pair = 0; pair < 2; ++pair) {
        const double angle = (5 + position) * frequencies[pair].item<double>();
        const auto a = x[0][position][head][pair].item<double>();
        const auto b = x[0][position][head][pair + 2].item<double>();
        EXPECT_NEAR(
            y[0][position][head][pair].item<double>(),
            a * std::cos(angle) - b * std::sin(angle),
            1e-4);
        EXPECT_NEAR(
            y[0][position][head][pair + 2].item<double>(),
            b * std::cos(angle) + a * std::sin(angle),
            1e-4);
      }
}

TEST(Rope, ATableGrows) {
  RopeTable table(small_llama());
  const at::Tensor like = at::zeros({1});
  const auto small = table.part(2, 3, like);
  const auto large = table.part(0, 1000, like);
  EXPECT_TRUE(testing::same(large.cos.narrow(0, 2, 3), small.cos));
  EXPECT_TRUE(testing::same(large.sin.narrow(0, 2, 3), small.sin));
  // Another dtype makes it anew, and no longer.
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(
        table.part(0, 2, like.to(at::kBFloat16)).cos.scalar_type(), at::kBFloat16);
    EXPECT_EQ(table.part(0, 2, like).cos.scalar_type(), at::kFloat);
  }
}

TEST(Rope, ATableOfInferenceServesTraining) {
  RopeTable table(small_llama());
  {
    const c10::InferenceMode inference;
    table.part(0, 4, at::zeros({1}));
  }
  const at::Tensor x = at::ones({1, 4, 6, 4}).set_requires_grad(true);
  turn(x, table.part(0, 4, x)).sum().backward();
  EXPECT_TRUE(x.grad().defined());
}

}  // namespace
}  // namespace trireme::model
