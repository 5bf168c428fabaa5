// The word that all ranks must agree on, and what errors say about it.
#include "trireme/comm/collective.h"

#include <set>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

using c10::ScalarType;

TEST(Collective, SignatureTellsEveryFieldApart) {
  std::set<uint64_t> seen;
  size_t calls = 0;
  for (int kind = 0; kind <= static_cast<int>(CollectiveKind::AllToAll); ++kind)
    for (int op = 0; op <= static_cast<int>(ReduceOp::BitOr); ++op)
      for (int dtype = 0; dtype < static_cast<int>(ScalarType::Undefined); ++dtype)
        for (const int root : {-1, 0, 1, 7})
          for (const int64_t count : {0, 1, 65536}) {
            ++calls;
            seen.insert(signature(
                {.kind = static_cast<CollectiveKind>(kind),
                 .op = static_cast<ReduceOp>(op),
                 .dtype = static_cast<ScalarType>(dtype),
                 .root = root,
                 .count = count}));
          }
  EXPECT_EQ(seen.size(), calls);
}

// As many ranks as a world of threads may have.
TEST(Collective, SignatureTellsEveryRootApart) {
  std::set<uint64_t> seen;
  for (int root = -1; root < 4096; ++root) {
    const uint64_t packed = signature(
        {.kind = CollectiveKind::Broadcast,
         .dtype = ScalarType::Float,
         .root = root,
         .count = 3});
    seen.insert(packed);
    if (root >= 0) {
      EXPECT_EQ(
          describe(packed), "broadcast float32[3] from rank " + std::to_string(root));
    }
  }
  EXPECT_EQ(seen.size(), 4097U);
}

TEST(Collective, SignatureIsExactForAHundredBillionElements) {
  const int64_t count = 100'000'000'001;
  EXPECT_EQ(
      describe(signature(
          {.kind = CollectiveKind::AllReduce,
           .dtype = ScalarType::BFloat16,
           .count = count})),
      "all_reduce sum bfloat16[100000000001]");
}

TEST(Collective, DescribesWhatWasCalled) {
  const auto words = [](const Collective& call) { return describe(signature(call)); };
  EXPECT_EQ(words({}), "barrier");
  EXPECT_EQ(
      words(
          {.kind = CollectiveKind::Reduce,
           .op = ReduceOp::Max,
           .dtype = ScalarType::Long,
           .root = 2,
           .count = 5}),
      "reduce max int64[5] to rank 2");
  EXPECT_EQ(
      words(
          {.kind = CollectiveKind::ReduceScatter,
           .op = ReduceOp::Mean,
           .dtype = ScalarType::Half,
           .count = 8}),
      "reduce_scatter mean float16[8]");
  EXPECT_EQ(
      words({.kind = CollectiveKind::AllGather, .count = 1}), "all_gather uint8[1]");
  EXPECT_EQ(
      words({.kind = CollectiveKind::Gather, .root = 0, .count = 4}),
      "gather uint8[4] to rank 0");
  EXPECT_EQ(
      words({.kind = CollectiveKind::Scatter, .root = 1, .count = 0}),
      "scatter uint8[0] from rank 1");
  EXPECT_EQ(
      words({.kind = CollectiveKind::AllToAll, .count = 2}), "all_to_all uint8[2]");
}

TEST(Collective, NamesEveryOp) {
  std::string names;
  for (int op = 0; op <= static_cast<int>(ReduceOp::BitOr); ++op)
    names += to_string(static_cast<ReduceOp>(op)) + " ";
  EXPECT_EQ(names, "sum mean min max product bit_and bit_or ");
}

// A flight record may hold any bits.
TEST(Collective, TakesNumbersThatMeanNothing) {
  EXPECT_EQ(to_string(static_cast<CollectiveKind>(15)), "unknown call");
  EXPECT_EQ(to_string(static_cast<ReduceOp>(7)), "unknown op");
  EXPECT_NE(describe(~uint64_t{0}), "");
}

TEST(Collective, NamesDtypesAsUsersWriteThem) {
  EXPECT_EQ(dtype_name(ScalarType::Byte), "uint8");
  EXPECT_EQ(dtype_name(ScalarType::Char), "int8");
  EXPECT_EQ(dtype_name(ScalarType::Short), "int16");
  EXPECT_EQ(dtype_name(ScalarType::Int), "int32");
  EXPECT_EQ(dtype_name(ScalarType::Long), "int64");
  EXPECT_EQ(dtype_name(ScalarType::Half), "float16");
  EXPECT_EQ(dtype_name(ScalarType::BFloat16), "bfloat16");
  EXPECT_EQ(dtype_name(ScalarType::Float), "float32");
  EXPECT_EQ(dtype_name(ScalarType::Double), "float64");
  EXPECT_EQ(dtype_name(ScalarType::Bool), "bool");
  EXPECT_EQ(dtype_name(ScalarType::ComplexFloat), "complexfloat");
  EXPECT_EQ(dtype_name(ScalarType::Float8_e5m2), "float8_e5m2");
}

TEST(Collective, ListsRanksInWords) {
  EXPECT_EQ(rank_list(std::vector<int>{2}), "rank 2");
  EXPECT_EQ(rank_list(std::vector<int>{1, 3}), "ranks 1 and 3");
  EXPECT_EQ(rank_list(std::vector<int>{0, 1, 5}), "ranks 0, 1 and 5");
}

TEST(Collective, ARankIsNamedAsTheWorldCountsTooWhereThatDiffers) {
  EXPECT_EQ(rank_text(1, {}), "rank 1");
  EXPECT_EQ(rank_text(1, std::vector<int>{0, 1}), "rank 1");
  EXPECT_EQ(rank_text(1, std::vector<int>{2, 3}), "rank 1 (world rank 3)");
}

TEST(Collective, AMismatchSaysWhoCalledWhat) {
  const uint64_t barrier = signature({});
  const uint64_t split = signature({.kind = CollectiveKind::Split});
  EXPECT_EQ(
      describe_mismatch(
          std::vector<uint64_t>{split, barrier, split}, std::vector<int>{4, 5, 9}),
      "[comm] expected the same call with the same dtype and count on every rank, got: "
      "rank 5 called barrier; ranks 4 and 9 called split; make all of them call the "
      "same");
}

// Rank 1 of three, with one piece for all or one a reader.
TEST(Collective, SaysWhatARankGivesToWhom) {
  std::byte memory[3];
  const std::vector<Piece> one = {{memory, 1}};
  const std::vector<Piece> three = {{memory, 1}, {memory + 1, 1}, {memory + 2, 1}};
  const auto given = [](CollectiveKind kind, std::span<const Piece> give, int reader) {
    return given_to({.kind = kind, .root = 2, .give = give}, reader).data;
  };
  EXPECT_EQ(given(CollectiveKind::AllGather, one, 2), memory);
  EXPECT_EQ(given(CollectiveKind::AllToAll, three, 2), memory + 2);
  EXPECT_EQ(given(CollectiveKind::Scatter, three, 0), memory);
  EXPECT_EQ(given(CollectiveKind::Gather, one, 2), memory);
  EXPECT_EQ(given(CollectiveKind::Gather, one, 0), nullptr);
  EXPECT_EQ(given(CollectiveKind::Broadcast, {}, 0), nullptr);
}

TEST(Collective, TakesWhatARankGivesToItself) {
  std::vector<int> input = {7, 8}, output = {0, 0};
  const auto piece = [](int& value) {
    return Piece{reinterpret_cast<std::byte*>(&value), sizeof value};
  };
  const std::vector<Piece> give = {piece(input[0]), piece(input[1])};
  std::vector<Piece> take = {piece(output[0]), piece(output[1])};
  take_own({.kind = CollectiveKind::AllToAll, .give = give, .take = take}, 1);
  EXPECT_EQ(output, (std::vector<int>{0, 8}));
  take_own({.kind = CollectiveKind::AllGather, .give = give, .take = take}, 1);
  EXPECT_EQ(output, (std::vector<int>{0, 7}));
  take[1].bytes = 0;
  take_own({.kind = CollectiveKind::AllToAll, .give = give, .take = take}, 1);
  take_own({.kind = CollectiveKind::AllToAll, .give = give}, 1);
  take_own({.kind = CollectiveKind::AllToAll, .take = take}, 0);
  EXPECT_EQ(output, (std::vector<int>{0, 7}));
}

TEST(Collective, NamesAGroupByItsRanks) {
  EXPECT_EQ(group_text(std::vector<int>{0, 1, 2}, 3), "the world");
  EXPECT_EQ(group_text(std::vector<int>{1, 3}, 4), "the group of ranks 1 and 3");
  EXPECT_EQ(group_text(std::vector<int>{2}, 4), "the group of rank 2");
  EXPECT_EQ(
      group_text(std::vector<int>{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, 11),
      "the group of ranks 9, 8, 7, 6, 5, 4, 3 and 2 and 2 more");
}

// What the word of a call has no room for must not look like another call.
TEST(Collective, RefusesWhatItsSignatureCannotHold) {
  EXPECT_EQ(
      describe(
          signature({.kind = CollectiveKind::Broadcast, .root = 8190, .count = 1})),
      "broadcast uint8[1] from rank 8190");
  for (const int root : {8191, 8192, 1 << 20, -2})
    EXPECT_THROW(
        signature({.kind = CollectiveKind::Broadcast, .root = root}), NotSupported)
        << root;
  for (const int64_t count : {int64_t{1} << 37, int64_t{-1}})
    EXPECT_THROW(
        signature({.kind = CollectiveKind::AllReduce, .count = count}), NotSupported);
}

}  // namespace
}  // namespace trireme::comm
