// Batches cut and put together again.
#include "trireme/pipe/microbatches.h"

#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::pipe {
namespace {

using testing::contains;
using testing::same;
using How = MergeSpec::How;

at::Tensor counted(std::vector<int64_t> sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes)
    count *= size;
  return at::arange(count, at::kFloat).view(sizes);
}

std::string cut_refused(const std::function<void()>& body) {
  return testing::message_of<InvalidArgument>(body);
}

at::Tensor add(const at::Tensor& so_far, const at::Tensor& next) {
  return so_far + next;
}

std::vector<int64_t> row_counts(const std::vector<Tensors>& chunks) {
  std::vector<int64_t> counts;
  for (const Tensors& chunk : chunks)
    counts.push_back(rows(chunk).value_or(-1));
  return counts;
}

TEST(Microbatches, GoThereAndBack) {
  for (const int64_t size : {128, 256, 512}) {
    const Tensors batch{counted({size, 4}), counted({size, 2, 3}), counted({size})};
    const auto chunks = split(batch, 2);
    ASSERT_EQ(chunks.size(), 2u);
    for (const Tensors& chunk : chunks) {
      ASSERT_EQ(chunk.size(), 3u);
      EXPECT_EQ(chunk[1].sizes(), (std::vector<int64_t>{size / 2, 2, 3}));
    }
    EXPECT_TRUE(same(chunks[1][0], batch[0].slice(0, size / 2)));
    const Tensors merged = merge(chunks);
    for (size_t i = 0; i < batch.size(); ++i)
      EXPECT_TRUE(same(merged[i], batch[i]));
  }
}

TEST(Microbatches, UnevenOnesGiveTheFirstARowMore) {
  const at::Tensor batch = counted({11, 3});
  const auto chunks = split({batch}, 4);
  EXPECT_EQ(row_counts(chunks), (std::vector<int64_t>{3, 3, 3, 2}));
  EXPECT_TRUE(same(merge(chunks)[0], batch));
  EXPECT_EQ(row_counts(split({batch}, 11)), std::vector<int64_t>(11, 1));
}

TEST(Microbatches, AreViews) {
  const at::Tensor batch = counted({8, 3});
  for (const Tensors& chunk : split({batch}, 3))
    EXPECT_TRUE(chunk[0].is_alias_of(batch));
  EXPECT_TRUE(split({batch}, 1)[0][0].is_alias_of(batch));
}

TEST(Microbatches, HaveASpecATensor) {
  const Tensors batch{counted({4, 6}), counted({3}), counted({2, 9, 2})};
  const std::vector<SplitSpec> specs{{.dim = 1}, {.replicate = true}, {.dim = -2}};
  const auto chunks = split(batch, 3, specs);
  for (const Tensors& chunk : chunks) {
    EXPECT_EQ(chunk[0].sizes(), (std::vector<int64_t>{4, 2}));
    EXPECT_TRUE(chunk[1].is_same(batch[1]));
    EXPECT_EQ(chunk[2].sizes(), (std::vector<int64_t>{2, 3, 2}));
    EXPECT_EQ(rows(chunk, specs), 2);
  }
  const Tensors merged = merge(chunks, {{.dim = -1}, {.how = How::Equal}, {.dim = 1}});
  for (size_t i = 0; i < batch.size(); ++i)
    EXPECT_TRUE(same(merged[i], batch[i]));
}

TEST(Microbatches, KeepAbsentTensors) {
  const auto chunks = split({counted({4}), at::Tensor()}, 2, {{}, {.dim = 7}});
  for (const Tensors& chunk : chunks) {
    ASSERT_EQ(chunk.size(), 2u);
    EXPECT_FALSE(chunk[1].defined());
  }
  const Tensors merged = merge(chunks);
  EXPECT_TRUE(merged[0].defined());
  EXPECT_FALSE(merged[1].defined());
  EXPECT_FALSE(merge(chunks, {{}, {.how = How::Equal}})[1].defined());
  EXPECT_FALSE(merge(chunks, {{}, {.how = How::Fold, .fold = add}})[1].defined());
  EXPECT_EQ(rows({at::Tensor(), counted({5})}), 5);
  EXPECT_EQ(rows({at::Tensor()}), std::nullopt);
  EXPECT_EQ(rows({}), std::nullopt);
  EXPECT_EQ(rows({at::zeros({})}), std::nullopt);
}

TEST(Microbatches, WithoutTensorsAreEmpty) {
  const auto chunks = split({}, 3);
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_TRUE(chunks[2].empty());
  EXPECT_TRUE(merge({{}, {}}).empty());
}

TEST(Microbatches, GradientsFlowToTheBatch) {
  const at::Tensor batch = counted({5, 2}).requires_grad_();
  const auto chunks = split({batch}, 2);
  merge(chunks)[0].square().sum().backward();
  EXPECT_TRUE(same(batch.grad(), batch.detach() * 2));
}

TEST(Microbatches, FoldInOrder) {
  const std::vector<Tensors> losses{
      {at::full({}, 1.f)}, {at::full({}, 2.f)}, {at::full({}, 4.f)}};
  EXPECT_EQ(merge(losses, {{.how = How::Fold, .fold = add}})[0].item<float>(), 7);
  EXPECT_EQ(
      merge(losses, {{.how = How::Fold, .fold = add, .initial = at::full({}, 10.f)}})[0]
          .item<float>(),
      17);
  const auto minus = [](const at::Tensor& a, const at::Tensor& b) { return a - b; };
  EXPECT_EQ(merge(losses, {{.how = How::Fold, .fold = minus}})[0].item<float>(), -5);
}

TEST(Microbatches, EqualOnesMayBeCopiesAndHoldNan) {
  const at::Tensor first = at::full({2}, std::numeric_limits<float>::quiet_NaN())
                               .index_fill(0, at::zeros({1}, at::kLong), 1.f);
  const Tensors merged = merge({{first}, {first.clone()}}, {{.how = How::Equal}});
  EXPECT_TRUE(merged[0].is_same(first));
}

TEST(Microbatches, RefuseABatchThatCannotBeCut) {
  EXPECT_TRUE(contains(
      cut_refused([] {
        split({counted({8}), counted({3, 2})}, 4);
      }),
      "[pipe] tensor 1 of the batch: expected at least 4 rows for as many "
      "microbatches, "
      "got 3 (sizes [3, 2], dim 0); take a larger batch or fewer microbatches"));
  EXPECT_TRUE(contains(
      cut_refused([] { split({at::full({}, 1.f)}, 1); }),
      "[pipe] tensor 0 of the batch: expected a tensor with dims, got one of 0 dims"));
  EXPECT_TRUE(contains(
      cut_refused([] {
        split({counted({4, 4})}, 2, {{.dim = 2}});
      }),
      "expected a dim in [-2, 2), got 2 for sizes [4, 4]"));
  EXPECT_TRUE(contains(
      cut_refused([] {
        split({counted({4, 4})}, 2, {{.dim = -3}});
      }),
      "expected a dim in [-2, 2), got -3"));
  EXPECT_TRUE(contains(
      cut_refused([] {
        split({counted({4}), counted({4})}, 2, {{}});
      }),
      "[pipe] expected a spec for each of 2 tensors or none at all, got 1"));
  for (const int count : {0, -1})
    EXPECT_TRUE(contains(
        cut_refused([count] { split({counted({4})}, count); }),
        text("[pipe] expected at least 1 microbatch, got ", count)));
}

TEST(Microbatches, RefuseChunksThatDoNotFit) {
  const at::Tensor a = counted({2, 3});
  const auto merged = [&](const at::Tensor& b, const MergeSpec& spec) {
    return cut_refused([&] { merge({{a}, {b}}, {spec}); });
  };
  EXPECT_TRUE(contains(
      cut_refused([&] {
        merge({{a}, {a, a}});
      }),
      "[pipe] expected chunks with as many tensors each, got 1 in chunk 0 and 2 in "
      "chunk "
      "1; put an undefined tensor"));
  EXPECT_TRUE(contains(cut_refused([] { merge({}); }), "at least 1 chunk to merge"));
  EXPECT_TRUE(contains(
      cut_refused([&] {
        merge({{a, a}}, {{}});
      }),
      "a spec for each of 2 tensors"));
  EXPECT_TRUE(contains(
      merged(counted({2, 4}), {}),
      "[pipe] tensor 0: expected chunks that differ along dim 0 only, got chunk 0 of "
      "Float [2, 3] and chunk 1 of Float [2, 4]"));
  EXPECT_TRUE(contains(merged(counted({6}), {}), "chunk 1 of Float [6]"));
  EXPECT_TRUE(contains(merged(a.to(at::kInt), {}), "chunk 1 of Int [2, 3]"));
  EXPECT_TRUE(contains(merged(a, {.dim = 2}), "expected a dim in [-2, 2), got 2"));
  EXPECT_TRUE(contains(
      merged(at::Tensor(), {}),
      "[pipe] tensor 0: expected it in all chunks or in none, got none in chunk 1"));
  EXPECT_TRUE(contains(
      cut_refused([&] {
        merge({{at::Tensor()}, {a}});
      }),
      "got none in chunk 0"));
  const at::Tensor zero = at::full({}, 1.f);
  EXPECT_TRUE(contains(cut_refused([&] { merge({{zero}, {zero}}); }), "fold it"));
  EXPECT_TRUE(contains(
      merged(a, {.how = How::Fold}), "expected a function to fold with, got none"));
}

TEST(Microbatches, RefuseUnequalOnesUnderEqual) {
  const at::Tensor a = counted({2, 3});
  for (const at::Tensor& other : {a + 1, a.to(at::kDouble), a.view({3, 2})})
    EXPECT_TRUE(contains(
        cut_refused([&] {
          merge({{a}, {a}, {other}}, {{.how = How::Equal}});
        }),
        "[pipe] tensor 0: expected equal chunks, got chunk 0 of Float [2, 3] and chunk "
        "2 "
        "of "));
}

}  // namespace
}  // namespace trireme::pipe
