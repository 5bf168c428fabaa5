#include "trireme/model/attention.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "trireme/autograd/random_stream.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::model {
namespace {

at::Tensor numbers(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed));
}

// Word for word, with a loop over queries.
at::Tensor by_hand(
    const at::Tensor& queries,
    const at::Tensor& keys,
    const at::Tensor& values,
    double scale) {
  const int64_t t = queries.size(2), past = keys.size(2) - t;
  const int64_t group = queries.size(1) / keys.size(1);
  const at::Tensor k = keys.repeat_interleave(group, 1);
  const at::Tensor v = values.repeat_interleave(group, 1);
  std::vector<at::Tensor> rows;
  for (int64_t i = 0; i < t; ++i) {
    const auto seen = past + i + 1;
    const at::Tensor scores =
        at::matmul(queries.narrow(2, i, 1), k.narrow(2, 0, seen).transpose(2, 3));
    rows.push_back(at::matmul(at::softmax(scores * scale, -1), v.narrow(2, 0, seen)));
  }
  return at::cat(rows, 2).transpose(1, 2).flatten(2);
}

void expect_close(const at::Tensor& got, const at::Tensor& wanted) {
  ASSERT_EQ(got.sizes(), wanted.sizes());
  EXPECT_TRUE(at::allclose(got, wanted, 1.3e-6, 1e-5)) << (got - wanted).abs().max();
}

TEST(Attention, SeesNothingBehind) {
  const auto q = numbers({2, 4, 7, 8}, 1), k = numbers({2, 4, 7, 8}, 2),
             v = numbers({2, 4, 7, 8}, 3);
  const at::Tensor got = causal_attention(q, k, v, {.scale = 0.3});
  expect_close(got, by_hand(q, k, v, 0.3));
}

TEST(Attention, HeadsOfKeysServeSeveralQueries) {
  const auto q = numbers({2, 6, 5, 8}, 1), k = numbers({2, 2, 5, 8}, 2),
             v = numbers({2, 2, 5, 8}, 3);
  expect_close(causal_attention(q, k, v, {.scale = 0.5}), by_hand(q, k, v, 0.5));
}

TEST(Attention, NewPositionsSeeThePast) {
  const auto k = numbers({2, 2, 9, 8}, 2), v = numbers({2, 2, 9, 8}, 3);
  for (const int64_t t : {1, 3, 9}) {
    const at::Tensor q = numbers({2, 4, t, 8}, 1);
    expect_close(causal_attention(q, k, v, {.scale = 0.5}), by_hand(q, k, v, 0.5));
  }
}

TEST(Attention, DropoutIsDrawnForTheLayer) {
  const auto q = numbers({2, 4, 5, 8}, 1), k = numbers({2, 2, 5, 8}, 2),
             v = numbers({2, 2, 5, 8}, 3);
  const auto run = [&](double p, uint64_t layer) {
    const autograd::RandomScope scope(autograd::RandomContext{.seed = 5});
    return causal_attention(q, k, v, {.scale = 0.5, .dropout = p, .layer = layer});
  };
  EXPECT_TRUE(testing::same(run(0.3, 1), run(0.3, 1)));
  EXPECT_FALSE(at::equal(run(0.3, 1), run(0.3, 2)));
  // Hardly anything is dropped: the explicit way computes the same.
  expect_close(run(1e-12, 1), by_hand(q, k, v, 0.5));
}

TEST(Attention, DropoutWithoutAContextIsRefused) {
  const at::Tensor x = numbers({1, 1, 2, 4}, 1);
  EXPECT_THROW(causal_attention(x, x, x, {.dropout = 0.5}), InvalidArgument);
}

TEST(Attention, TakesHalfPrecision) {
  const auto q = numbers({2, 4, 7, 8}, 1), k = numbers({2, 2, 7, 8}, 2),
             v = numbers({2, 2, 7, 8}, 3);
  const auto low = at::kBFloat16;
  const at::Tensor got =
      causal_attention(q.to(low), k.to(low), v.to(low), {.scale = 0.3});
  EXPECT_EQ(got.scalar_type(), low);
  // 8 bits of mantissa, inputs and output.
  EXPECT_TRUE(at::allclose(got.to(at::kFloat), by_hand(q, k, v, 0.3), 0.03, 0.03));
}

}  // namespace
}  // namespace trireme::model
