// The moves at sizes around every border of windows.
#include <gtest/gtest.h>

#include "staged_world.h"
#include "trireme/comm/shared/algorithms.h"

namespace trireme::comm {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes message(size_t count, int from, int to) {
  Bytes out(count);
  for (size_t i = 0; i < count; ++i)
    out[i] = static_cast<uint8_t>(
        i * 31 + static_cast<size_t>(from) * 7 + static_cast<size_t>(to) * 3);
  return out;
}

std::vector<Piece> pieces_of(std::vector<Bytes>& parts) {
  std::vector<Piece> pieces;
  for (Bytes& part : parts)
    pieces.push_back(piece_of(part));
  return pieces;
}

// How much goes from one rank to another: unequal, some nothing.
size_t amount(int from, int to, size_t most) {
  return (static_cast<size_t>(from) * 5 + static_cast<size_t>(to) * 3) % 4 * most / 3;
}

class MoveRanks : public ::testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(MoveRanks, AllToAllDeliversEveryPieceAtEveryBorder) {
  const auto [ranks, reachable] = GetParam();
  run_staged(
      ranks,
      [](SharedEngine& engine) {
        for (const size_t most : {3, 190, 192, 195, 1023, 1024, 1026, 6000}) {
          std::vector<Bytes> give, take, wanted;
          for (int k = 0; k < engine.size(); ++k) {
            give.push_back(message(amount(engine.rank(), k, most), engine.rank(), k));
            wanted.push_back(message(amount(k, engine.rank(), most), k, engine.rank()));
            take.push_back(Bytes(wanted.back().size()));
          }
          engine.run(
              {.kind = CollectiveKind::AllToAll,
               .count = static_cast<int64_t>(most),
               .give = pieces_of(give),
               .take = pieces_of(take)},
              in_time());
          EXPECT_EQ(take, wanted) << "rank " << engine.rank() << " most " << most;
        }
      },
      {.reachable = reachable});
}

TEST_P(MoveRanks, AllGatherTakesPiecesOfDifferentLengths) {
  const auto [ranks, reachable] = GetParam();
  run_staged(
      ranks,
      [](SharedEngine& engine) {
        for (const size_t most : {9, 1023, 1025, 2049, 7000}) {
          Bytes own = message(amount(engine.rank(), 1, most), engine.rank(), 0);
          std::vector<Bytes> take, wanted;
          for (int k = 0; k < engine.size(); ++k) {
            wanted.push_back(message(amount(k, 1, most), k, 0));
            take.push_back(Bytes(wanted.back().size()));
          }
          const Piece give = piece_of(own);
          engine.run(
              {.kind = CollectiveKind::AllGather,
               .count = static_cast<int64_t>(most),
               .give = {&give, 1},
               .take = pieces_of(take)},
              in_time());
          EXPECT_EQ(take, wanted);
        }
      },
      {.reachable = reachable});
}

INSTANTIATE_TEST_SUITE_P(
    Sizes,
    MoveRanks,
    ::testing::Combine(::testing::Values(1, 2, 3, 5, 18), ::testing::Bool()));

}  // namespace
}  // namespace trireme::comm
