// The streaming reductions at sizes around every border of chunks and shards.
#include <gtest/gtest.h>

#include "staged_world.h"
#include "trireme/comm/shared/algorithms.h"

namespace trireme::comm {
namespace {

std::vector<int32_t> values(size_t count, int rank) {
  std::vector<int32_t> out(count);
  for (size_t i = 0; i < count; ++i)
    out[i] = static_cast<int32_t>(i * 7 + static_cast<size_t>(rank) * 1000003);
  return out;
}

std::vector<int32_t> sum_of(size_t count, int ranks) {
  std::vector<int32_t> sum(count);
  for (int rank = 0; rank < ranks; ++rank) {
    const auto one = values(count, rank);
    for (size_t i = 0; i < count; ++i)
      sum[i] += one[i];
  }
  return sum;
}

void all_reduce(SharedEngine& engine, size_t count, int root) {
  auto data = values(count, engine.rank());
  const Piece piece = piece_of(data);
  const bool wanted = root < 0 || root == engine.rank();
  engine.run(
      {.kind = root < 0 ? CollectiveKind::AllReduce : CollectiveKind::Reduce,
       .dtype = c10::ScalarType::Int,
       .root = root,
       .count = static_cast<int64_t>(count),
       .give = {&piece, 1},
       .take = {&piece, wanted ? size_t{1} : 0}},
      in_time());
  EXPECT_EQ(data, wanted ? sum_of(count, engine.size()) : values(count, engine.rank()))
      << "rank " << engine.rank() << " count " << count << " root " << root;
}

// A half of the staging is 2 KiB = 512 elements; chunks are 512 (pair) or 256 (many).
const std::vector<size_t> kCounts = {
    0, 1, 12, 13, 255, 256, 257, 511, 512, 513, 767, 768, 769, 1024, 1025, 5000};

class ReductionRanks : public ::testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(ReductionRanks, AllReduceIsExactAtEveryBorder) {
  const auto [ranks, reachable] = GetParam();
  run_staged(
      ranks,
      [](SharedEngine& engine) {
        for (const size_t count : kCounts)
          all_reduce(engine, count, -1);
      },
      {.reachable = reachable});
}

TEST_P(ReductionRanks, ReduceIsExactForEveryRoot) {
  const auto [ranks, reachable] = GetParam();
  run_staged(
      ranks,
      [](SharedEngine& engine) {
        for (int root = 0; root < engine.size(); ++root)
          for (const size_t count : {5, 513, 2000})
            all_reduce(engine, count, root);
      },
      {.reachable = reachable});
}

TEST_P(ReductionRanks, ReduceScatterIsExactAtEveryBorder) {
  const auto [ranks, reachable] = GetParam();
  run_staged(
      ranks,
      [](SharedEngine& engine) {
        const auto size = static_cast<size_t>(engine.size());
        const auto own = static_cast<size_t>(engine.rank());
        for (const size_t count : kCounts) {
          auto input = values(count * size, engine.rank());
          std::vector<int32_t> output(count);
          const Piece give = piece_of(input), take = piece_of(output);
          engine.run(
              {.kind = CollectiveKind::ReduceScatter,
               .dtype = c10::ScalarType::Int,
               .count = static_cast<int64_t>(count),
               .give = {&give, 1},
               .take = {&take, 1}},
              in_time());
          const auto sum = sum_of(count * size, engine.size());
          EXPECT_EQ(
              output,
              std::vector<int32_t>(
                  sum.begin() + static_cast<long>(own * count),
                  sum.begin() + static_cast<long>((own + 1) * count)));
        }
      },
      {.reachable = reachable});
}

INSTANTIATE_TEST_SUITE_P(
    Sizes,
    ReductionRanks,
    ::testing::Combine(::testing::Values(1, 2, 3, 5, 18), ::testing::Bool()));

}  // namespace
}  // namespace trireme::comm
