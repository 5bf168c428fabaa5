// All schedules by name: their rules, and what holds for whatever size.
#include "trireme/sched/generate.h"

#include <filesystem>
#include <set>

#include "helpers.h"
#include "trireme/core/proc_text.h"
#include "trireme/sched/csv.h"
#include "trireme/sched/lower.h"
#include "trireme/sched/prove.h"
#include "trireme/sched/simulate.h"
#include "trireme/sched/validate.h"

namespace trireme::sched {
namespace {

std::string refused(const std::string& name, const ScheduleSize& size) {
  return refusal([&] { generate(name, size); });
}

TEST(Generate, NamesAreFoundInAnyCase) {
  EXPECT_STREQ(find_schedule("gpipe").name, "GPipe");
  EXPECT_STREQ(find_schedule("INTERLEAVEDZEROBUBBLE").name, "InterleavedZeroBubble");
  EXPECT_STREQ(find_schedule("zb-h1").name, "ZB-H1");
  EXPECT_EQ(generate("dualpipev", {.ranks = 1, .microbatches = 2}).name, "DualPipeV");
  EXPECT_STREQ(find_schedule("auto").name, "Auto");
  EXPECT_TRUE(is_auto("AUTO"));
  EXPECT_FALSE(is_auto("Automatic"));
  EXPECT_TRUE(contains(refusal([] { find_schedule("Autp"); }), "did you mean Auto"));
  const std::string message = refusal([] { find_schedule("2F2B"); });
  EXPECT_TRUE(contains(message, "ForwardOnly, GPipe, 1F1B")) << message;
  EXPECT_TRUE(contains(message, "got \"2F2B\"")) << message;
}

TEST(Generate, IllegalSizesNameTheRuleAndTheNearest) {
  EXPECT_TRUE(contains(
      refused("1F1B", {.ranks = 4, .microbatches = 3}),
      "expected at least as many microbatches as ranks for 1F1B, got 3 with 4 ranks; "
      "the "
      "nearest is 4"));
  EXPECT_TRUE(contains(
      refused("DualPipeV", {.ranks = 4, .microbatches = 7}), "the nearest is 8"));
  EXPECT_TRUE(contains(
      refused("Interleaved1F1B", {.ranks = 4, .microbatches = 9}), "the nearest is 8"));
  EXPECT_TRUE(contains(
      refused("InterleavedZeroBubble", {.ranks = 4, .microbatches = 13}),
      "the nearest is 12"));
  EXPECT_TRUE(contains(
      refused("ZBVZeroBubble", {.ranks = 2, .microbatches = 2, .stages_per_rank = 3}),
      "the stages a rank of ZBVZeroBubble from 2 to 2, got 3; the nearest is 2"));
  EXPECT_TRUE(contains(
      refused("GPipe", {.ranks = 2, .microbatches = 2, .stages_per_rank = 2}),
      "from 1 to 1"));
}

TEST(Generate, NothingBelowOneAndNothingWild) {
  for (const ScheduleInfo& info : all_schedules()) {
    for (const int bad : {0, -1, -1000000000, 1000000000, 2147483647}) {
      EXPECT_NE(refused(info.name, {.ranks = bad, .microbatches = 4}), "") << info.name;
      EXPECT_NE(refused(info.name, {.ranks = 2, .microbatches = bad}), "") << info.name;
      if (bad != 0) {
        EXPECT_NE(
            refused(info.name, {.ranks = 2, .microbatches = 4, .stages_per_rank = bad}),
            "")
            << info.name;
      }
    }
    // Each number by itself is legal, but together they would fill the memory.
    EXPECT_NE(refused(info.name, {.ranks = 1 << 20, .microbatches = 1 << 20}), "");
  }
}

TEST(Generate, BubblesDoNotFillTheMemory) {
  for (const char* name :
       {"GPipe", "Interleaved1F1B", "LoopedBFS", "ZBVZeroBubble", "V-Half", "V-Min"})
    EXPECT_TRUE(contains(
        refused(name, {.ranks = 1 << 20, .microbatches = 1}),
        "ranks x ranks x stages"));
}

TEST(Generate, UsualStagesAreTakenIfNoneAreNamed) {
  for (const ScheduleInfo& info : all_schedules())
    EXPECT_EQ(
        generate(info.name, {.ranks = 2, .microbatches = 4}).stages(),
        2 * info.usual_stages);
}

TEST(Generate, FewerMicrobatchesThanRanksWhereTorchAllowsIt) {
  for (const char* name :
       {"GPipe",
        "LoopedBFS",
        "Interleaved1F1B",
        "InterleavedZeroBubble",
        "ZBVZeroBubble",
        "Eager1F1B",
        "ZB-H1",
        "ZB-H2",
        "V-Half",
        "V-Min"})
    for (int M = 1; M <= 5; ++M)
      validate(generate(name, {.ranks = 6, .microbatches = M}));
}

// Valid, lowered, proved with no buffers at all, simulated, and the same after printing
// and reading, for 2,500 legal sizes.
TEST(Generate, WhateverTheSize) {
  std::mt19937 random(20250711);
  std::set<std::string> names;
  for (int round = 0; round < 2500; ++round) {
    const NamedSize what = random_size(random, round % 10 == 0 ? 12 : 6, 4);
    names.insert(what.name);
    SCOPED_TRACE(what.describe());
    const Schedule schedule = what.make();
    const auto flaw = find_flaw(schedule);
    ASSERT_FALSE(flaw) << flaw->what;
    ASSERT_TRUE(same(parse_csv(to_csv(schedule), "x"), schedule));
    const Schedule lowered = lower(schedule);
    const auto lowered_flaw = find_flaw(lowered);
    ASSERT_FALSE(lowered_flaw) << lowered_flaw->what;
    ASSERT_TRUE(same(parse_csv(to_csv(lowered), "x"), lowered));
    const Proof proof = prove(lowered, {.messages = 0});
    ASSERT_TRUE(proof.holds) << proof.why;
    const Simulation result = simulate(schedule, {});
    ASSERT_EQ(simulate(lowered, {}).makespan, result.makespan);
    ASSERT_GE(result.wall_bubble, 0);
    ASSERT_EQ(proof.peak_activations, result.peak_activations);
  }
  EXPECT_EQ(names.size(), all_schedules().size());
}

// Files as NAME_P2_V2_M4.csv and NAME_P2_V2_M4_lowered.csv: what the tool has to write.
TEST(Generate, EqualsTheGoldenFiles) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GOLDEN_FOLDER)) {
    std::string stem = entry.path().stem().string();
    const bool lowered = stem.ends_with("_lowered");
    const auto take = [&stem](const char* mark) {
      const size_t at = stem.rfind(mark);
      const int number = std::stoi(stem.substr(at + 2));
      stem.erase(at);
      return number;
    };
    if (lowered)
      stem.erase(stem.rfind('_'));
    const int M = take("_M"), V = take("_V"), P = take("_P");
    const Schedule schedule =
        generate(stem, {.ranks = P, .microbatches = M, .stages_per_rank = V});
    EXPECT_EQ(
        to_csv(lowered ? lower(schedule) : schedule),
        read_text_file(entry.path()).value_or(""))
        << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 16);
}

// Whatever find_schedule() knows can be made.
TEST(Generate, AutoByItsName) {
  const ScheduleSize size{.ranks = 3, .microbatches = 6};
  const Schedule made = generate("auto", size);
  EXPECT_EQ(made.name, "Auto");
  EXPECT_EQ(made.rank_of_stage, (std::vector<int>{0, 1, 2}));
  EXPECT_FALSE(find_flaw(made));
  EXPECT_LE(simulate(made, {}).makespan, simulate(generate("1F1B", size), {}).makespan);
  EXPECT_TRUE(contains(
      refusal([] { generate("Auto", {.ranks = 0, .microbatches = 1}); }),
      "at least one rank"));
}

}  // namespace
}  // namespace trireme::sched
