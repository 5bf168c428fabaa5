// The fused schedules against listings that were made by hand or by torch.
#include "helpers.h"
#include "trireme/sched/generators.h"

namespace trireme::sched {
namespace {

using Rows = std::vector<std::string>;

std::string bubbles(int count) {
  return std::string(static_cast<size_t>(count), ',');
}

TEST(GeneratorsFused, OneFOneB) {
  EXPECT_EQ(
      rows_of(generate("1F1B", {.ranks = 3, .microbatches = 4})),
      (Rows{
          "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3",
          "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3",
          "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3"}));
}

TEST(GeneratorsFused, Eager1F1B) {
  EXPECT_EQ(
      rows_of(generate("Eager1F1B", {.ranks = 3, .microbatches = 4})),
      (Rows{
          "0F0,0F1,0F2,0F3,0B0,0B1,0B2,0B3",
          "1F0,1F1,1F2,1B0,1F3,1B1,1B2,1B3",
          "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3"}));
}

TEST(GeneratorsFused, GPipe) {
  EXPECT_EQ(
      rows_of(generate("GPipe", {.ranks = 2, .microbatches = 3})),
      (Rows{"0F0,0F1,0F2,,,,0B0,0B1,0B2", ",1F0,1F1,1F2,1B0,1B1,1B2"}));
}

TEST(GeneratorsFused, ForwardOnly) {
  EXPECT_EQ(
      rows_of(generate(
          "ForwardOnly", {.ranks = 2, .microbatches = 2, .stages_per_rank = 2})),
      (Rows{"0F0,0F1,2F0,2F1", "1F0,1F1,3F0,3F1"}));
}

TEST(GeneratorsFused, LoopedBFS) {
  EXPECT_EQ(
      rows_of(
          generate("LoopedBFS", {.ranks = 2, .microbatches = 3, .stages_per_rank = 2})),
      (Rows{
          "0F0,0F1,0F2,2F0,2F1,2F2,,,2B2,2B1,2B0,0B2,0B1,0B0",
          ",1F0,1F1,1F2,3F0,3F1,3F2,3B2,3B1,3B0,1B2,1B1,1B0"}));
}

TEST(GeneratorsFused, Interleaved) {
  EXPECT_EQ(
      rows_of(generate(
          "Interleaved1F1B", {.ranks = 2, .microbatches = 4, .stages_per_rank = 2})),
      (Rows{
          "0F0,0F1,2F0,2F1,,,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,,2B2,,2B3,,0B2,,0B3",
          ",1F0,1F1,,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,,1B2,,1B3"}));
}

TEST(GeneratorsFused, InterleavedWithFewerMicrobatchesThanRanks) {
  EXPECT_EQ(
      rows_of(generate(
          "Interleaved1F1B", {.ranks = 4, .microbatches = 3, .stages_per_rank = 2})),
      (Rows{
          text("0F0,0F1,0F2,4F0,4F1,4F2,", bubbles(9), "4B0,,4B1,,4B2,,0B0,,0B1,,0B2"),
          text(",1F0,1F1,1F2,5F0,5F1,5F2,", bubbles(6), "5B0,,5B1,,5B2,,1B0,,1B1,,1B2"),
          text(
              ",,2F0,2F1,2F2,6F0,6F1,", bubbles(3), "6F2,6B0,,6B1,,6B2,,2B0,,2B1,,2B2"),
          text(
              ",,,3F0,3F1,3F2,",
              bubbles(2),
              "7F0,7B0,7F1,7B1,7F2,7B2,,3B0,,3B1,,3B2")}));
}

TEST(GeneratorsFused, GroupsAreWholeOrThereIsNone) {
  EXPECT_EQ(interleaved_group(4, 8), 4);
  EXPECT_EQ(interleaved_group(4, 10), 5);
  EXPECT_EQ(interleaved_group(4, 3), 3);
  EXPECT_EQ(interleaved_group(4, 15), 5);
  EXPECT_EQ(interleaved_group(4, 9), 0);
  EXPECT_EQ(interleaved_group(1, 7), 1);
}

}  // namespace
}  // namespace trireme::sched
