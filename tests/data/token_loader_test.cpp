#include "trireme/data/token_loader.h"

#include <limits>
#include <set>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "token_case.h"
#include "trireme/core/error.h"
#include "trireme/data/windows.h"
#include "trireme/testing/check.h"

namespace trireme::data {
namespace {

using testing::contains;
using testing::message_of;
using testing::same;

constexpr int64_t kLength = 4;

/// 10 windows of 4 tokens; token i is i.
TokenFile ten_windows() {
  return TokenFile(counting(41));
}

TokenLoaderOptions options(TokenLoaderOptions changed) {
  changed.sequence_length = kLength;
  return changed;
}

/// The windows of a batch, by its first column.
std::vector<int64_t> windows_of(const TokenBatch& batch) {
  std::vector<int64_t> windows;
  for (int64_t row = 0; row < batch.inputs.size(0); ++row)
    windows.push_back(batch.inputs[row][0].item<int64_t>() / kLength);
  return windows;
}

TEST(TokenLoader, TargetsAreTheInputsShiftedByOne) {
  TokenLoader loader(ten_windows(), options({.global_batch = 2, .shuffle = false}));
  EXPECT_EQ(loader.windows(), 10);
  for (int64_t step = 0; step < 7; ++step) {
    const TokenBatch batch = loader.next();
    EXPECT_EQ(batch.step, step);
    EXPECT_EQ(batch.first_sample, 0);
    const int64_t first = step * 2 % 10 * kLength;
    const at::Tensor row = at::arange(first, first + 8, at::kLong).view({2, kLength});
    EXPECT_TRUE(same(batch.inputs, row));
    EXPECT_TRUE(same(batch.targets, row + 1));
  }
}

TEST(TokenLoader, EachEpochHasEveryWindowOnce) {
  TokenLoader loader(ten_windows(), options({.global_batch = 4, .seed = 3}));
  std::vector<int64_t> seen;
  for (int step = 0; step < 10; ++step)
    for (const int64_t window : windows_of(loader.next()))
      seen.push_back(window);
  std::set<std::vector<int64_t>> orders;
  for (auto epoch = seen.begin(); epoch != seen.end(); epoch += 10) {
    orders.emplace(epoch, epoch + 10);
    EXPECT_EQ(std::set(epoch, epoch + 10).size(), 10U);
  }
  EXPECT_EQ(orders.size(), 4U);
  SampleOrder order({.windows = 10, .seed = 3});
  for (size_t k = 0; k < seen.size(); ++k)
    EXPECT_EQ(seen[k], order.window(static_cast<int64_t>(k)));
}

TEST(TokenLoader, EveryLayoutSeesTheSameGlobalBatches) {
  for (const bool shuffle : {false, true}) {
    const TokenLoaderOptions whole =
        options({.global_batch = 8, .shuffle = shuffle, .seed = 7});
    for (const int ranks : {2, 4, 8}) {
      TokenLoader alone(ten_windows(), whole);
      std::vector<TokenLoader> parts;
      for (int rank = 0; rank < ranks; ++rank) {
        TokenLoaderOptions part = whole;
        part.rank = rank;
        part.ranks = ranks;
        parts.emplace_back(ten_windows(), part);
      }
      for (int step = 0; step < 6; ++step) {
        std::vector<at::Tensor> inputs, targets;
        for (int rank = 0; rank < ranks; ++rank) {
          const TokenBatch batch = parts[static_cast<size_t>(rank)].next();
          EXPECT_EQ(batch.first_sample, rank * 8 / ranks);
          inputs.push_back(batch.inputs);
          targets.push_back(batch.targets);
        }
        const TokenBatch batch = alone.next();
        EXPECT_TRUE(same(at::cat(inputs), batch.inputs));
        EXPECT_TRUE(same(at::cat(targets), batch.targets));
      }
    }
  }
}

TEST(TokenLoader, GoesOnExactlyWhereItWas) {
  for (const int prefetch : {0, 1, 3}) {
    const TokenLoaderOptions all =
        options({.global_batch = 3, .seed = 1, .prefetch = prefetch});
    TokenLoader first(ten_windows(), all);
    std::vector<TokenBatch> batches;
    for (int step = 0; step < 20; ++step) {
      EXPECT_EQ(first.position(), step);
      batches.push_back(first.next());
    }
    TokenLoader second(ten_windows(), all);
    for (const int64_t step : {13, 0, 19, 4, 5, 5, 12}) {
      second.seek(step);
      EXPECT_EQ(second.position(), step);
      for (int64_t at = step; at < std::min<int64_t>(step + 2, 20); ++at) {
        const TokenBatch batch = second.next();
        EXPECT_EQ(batch.step, at);
        EXPECT_TRUE(same(batch.inputs, batches[static_cast<size_t>(at)].inputs));
        EXPECT_TRUE(same(batch.targets, batches[static_cast<size_t>(at)].targets));
      }
    }
  }
}

TEST(TokenLoader, SeeksFarAtOnce) {
  TokenLoader loader(ten_windows(), options({.global_batch = 4, .seed = 1}));
  const int64_t last = std::numeric_limits<int64_t>::max() / 4 - 1;
  loader.seek(last);
  EXPECT_EQ(loader.next().step, last);
  EXPECT_THROW(loader.next(), InvalidArgument);
  for (const int64_t step : {int64_t{-1}, last + 1})
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { loader.seek(step); }), text("got ", step)));
  loader.seek(0);
  EXPECT_EQ(loader.next().step, 0);
}

TEST(TokenLoader, BatchesBelongToTheCaller) {
  TokenLoader loader(ten_windows(), options({.global_batch = 2, .shuffle = false}));
  const TokenBatch first = loader.next();
  const at::Tensor copy = first.inputs.clone();
  for (int i = 0; i < 10; ++i)
    loader.next().inputs.fill_(-1);
  EXPECT_TRUE(same(first.inputs, copy));
}

TEST(TokenLoader, ThrowsWhatWentWrongInItsThread) {
  std::vector<int64_t> tokens = counting(41);
  tokens[22] = 999;  // in window 5, so in step 2
  for (const int prefetch : {0, 2}) {
    TokenLoader loader(
        TokenFile(tokens),
        options(
            {.global_batch = 2,
             .shuffle = false,
             .vocab_size = 50,
             .prefetch = prefetch}));
    EXPECT_EQ(loader.next().step, 0);
    EXPECT_EQ(loader.next().step, 1);
    for (int times = 0; times < 2; ++times)
      EXPECT_TRUE(contains(
          message_of<InvalidArgument>([&] { loader.next(); }),
          "expected tokens from 0 to 49, got 999 at position 22"));
    EXPECT_EQ(loader.position(), 2);
    loader.seek(3);
    EXPECT_EQ(loader.next().step, 3);
  }
}

TEST(TokenLoader, EndsWheneverItIsDropped) {
  for (int batches = 0; batches < 4; ++batches)
    for (int times = 0; times < 20; ++times) {
      TokenLoader loader(ten_windows(), options({.global_batch = 2, .prefetch = 2}));
      for (int i = 0; i < batches; ++i)
        loader.next();
      if (times % 3 == 0)
        loader.seek(times);
      if (times % 5 == 0)
        std::this_thread::yield();
      TokenLoader other = std::move(loader);
      loader = std::move(other);
    }
}

TEST(TokenLoader, RefusesWhatDoesNotFit) {
  const auto refusal = [](const TokenLoaderOptions& wrong) {
    return message_of<InvalidArgument>([&] { TokenLoader(ten_windows(), wrong); });
  };
  EXPECT_TRUE(contains(
      refusal(options({.global_batch = 3, .ranks = 2})),
      "expected a global batch that 2 ranks can share evenly, got 3 samples"));
  EXPECT_TRUE(contains(refusal(options({.global_batch = 0})), "got 0 samples"));
  EXPECT_TRUE(contains(
      refusal(options({.global_batch = 2, .rank = 2, .ranks = 2})), "rank 2 of 2"));
  EXPECT_TRUE(contains(refusal(options({.global_batch = 2, .ranks = 0})), "of 0"));
  EXPECT_TRUE(contains(
      refusal(options({.global_batch = 2, .prefetch = -1})), "0 to 1024 batches"));
  EXPECT_TRUE(contains(refusal({.global_batch = 2}), "got a length of 0"));
  EXPECT_TRUE(contains(
      refusal({.sequence_length = 41, .global_batch = 2}),
      "expected at least 41 tokens and one more for a sample, got 41"));
  EXPECT_EQ(
      TokenLoader(ten_windows(), {.sequence_length = 40, .global_batch = 2}).windows(),
      1);
}

}  // namespace
}  // namespace trireme::data
