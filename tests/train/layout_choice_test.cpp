#include "trireme/train/layout_choice.h"

#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"
#include "trireme/train/model_source.h"
#include "trireme/train/schedule_choice.h"

namespace trireme::train {
namespace {

using testing::message_of;

model::ModelPlan plan_of(const Config& config) {
  return describe_model(config, 256).plan;
}

std::vector<LayoutCandidate> layouts(const Config& config, const LayoutRoom& room) {
  return list_layouts(config, plan_of(config), room);
}

Config with_degrees(int pp, int dp) {
  Config config;
  config.training.global_batch_size = 16;
  config.parallelism.pipeline_parallel_degree = pp;
  config.parallelism.data_parallel_replicate_degree = dp;
  return config;
}

const LayoutCandidate* find(
    const std::vector<LayoutCandidate>& all, const Degrees& degrees) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const LayoutCandidate& one) {
        return one.degrees.pp == degrees.pp && one.degrees.dp == degrees.dp;
      });
  return found == all.end() ? nullptr : &*found;
}

TEST(LayoutChoice, WeighsRanksThreadsDataParallelAndPipelines) {
  const auto all = layouts({}, {.cores = 16});
  for (const Degrees& degrees :
       {Degrees{.pp = 1, .dp = 1},
        Degrees{.pp = 1, .dp = 4},
        Degrees{.pp = 1, .dp = 16},
        Degrees{.pp = 2, .dp = 4},
        Degrees{.pp = 4, .dp = 1}}) {
    const LayoutCandidate* one = find(all, degrees);
    ASSERT_NE(one, nullptr) << degrees.dp << " x " << degrees.pp;
    EXPECT_EQ(one->threads, 16 / degrees.ranks());
    EXPECT_GT(one->seconds, 0);
    EXPECT_TRUE(one->fits);
  }
  for (size_t i = 1; i < all.size(); ++i)
    EXPECT_LE(all[i - 1].seconds, all[i].seconds);
  for (const LayoutCandidate& one : all) {
    EXPECT_LE(one.degrees.ranks(), 16);
    EXPECT_EQ(16 % one.degrees.dp, 0) << "the batch has 16 samples";
  }
}

// The figures of a machine with 16 cores: what was fastest there must be among the few
// that are tried.
TEST(LayoutChoice, EstimatesPutWhatWasFastestFirst) {
  for (const int64_t batch : {16, 64}) {
    Config config;
    config.training.global_batch_size = batch;
    const auto all = layouts(config, {.cores = 16});
    const auto place = [&](const Degrees& degrees) {
      return find(all, degrees) - all.data();
    };
    EXPECT_LT(place({.pp = 1, .dp = 4}), 6);
    EXPECT_LT(place({.pp = 1, .dp = 16}), 6);
    EXPECT_LT(place({.pp = 1, .dp = 4}), place({.pp = 2, .dp = 4}));
  }
}

TEST(LayoutChoice, EveryCandidateCanRun) {
  for (int cores = 1; cores <= 16; cores += cores < 8 ? 1 : 4)
    for (const int64_t samples : {1, 2, 7, 16, 24, 40})
      for (const int64_t cut : {0, 1, 4}) {
        Config config;
        config.training.global_batch_size = samples;
        (cores % 2 == 0 ? config.training.local_batch_size
                        : config.parallelism.pipeline_parallel_microbatch_size) = cut;
        if (cut > 0 && samples % cut != 0)
          continue;  // no world could do that
        const model::ModelPlan plan = plan_of(config);
        for (const LayoutCandidate& one : layouts(config, {.cores = cores}))
          EXPECT_NO_THROW(first_layout(
              config,
              one.degrees,
              choose_batch(config, one.degrees),
              std::vector<sched::LayerCosts>(plan.layers.size())))
              << cores << " cores, " << samples << " samples, cut by " << cut;
      }
}

TEST(LayoutChoice, KeepsWhatTheConfigSays) {
  for (const LayoutCandidate& one : layouts(with_degrees(2, 0), {.cores = 8}))
    EXPECT_EQ(one.degrees.pp, 2);
  for (const LayoutCandidate& one : layouts(with_degrees(0, 4), {.cores = 8})) {
    EXPECT_EQ(one.degrees.dp, 4);
    EXPECT_LE(one.degrees.ranks(), 8);
  }
  const auto both = layouts(with_degrees(2, 8), {.cores = 2});
  ASSERT_EQ(both.size(), 1U);
  EXPECT_EQ(both[0].degrees.ranks(), 16);  // more than there are cores, as asked
  EXPECT_EQ(both[0].threads, 1);
  const auto four = layouts(with_degrees(4, 0), {.cores = 2});
  ASSERT_EQ(four.size(), 1U);
  EXPECT_EQ(four[0].degrees.ranks(), 4);
  for (const LayoutCandidate& one : layouts({}, {.ranks = 8, .cores = 2}))
    EXPECT_EQ(one.degrees.ranks(), 8);
  for (const LayoutCandidate& one : layouts({}, {.cores = 8, .threads = 3}))
    EXPECT_EQ(one.threads, 3);
}

TEST(LayoutChoice, ANamedScheduleMeansAPipeline) {
  Config config;
  config.parallelism.pipeline_parallel_schedule = "ZB-H1";
  for (const LayoutCandidate& one : layouts(config, {.cores = 4}))
    EXPECT_GT(one.degrees.pp, 1);
  EXPECT_EQ(choose_degrees(config, plan_of(config), 2).pp, 2);
  // One rank cannot have one, and does as well without.
  EXPECT_EQ(choose_degrees(config, plan_of(config), 1).pp, 1);
}

TEST(LayoutChoice, WhatHasNoRoomComesLast) {
  Config config;
  config.model.dim = 1024;
  config.model.n_layers = 8;
  const auto all = layouts(config, {.cores = 8});
  double least = 1e300;
  const auto tight = layouts(config, {.cores = 8, .memory_bytes = 6e9});
  EXPECT_EQ(all.size(), tight.size());
  bool fits = true;
  for (const LayoutCandidate& one : tight) {
    EXPECT_TRUE(fits || !one.fits);
    fits = one.fits;
    least = std::min(least, one.seconds);
  }
  EXPECT_FALSE(fits);
  EXPECT_TRUE(tight.front().fits);
  EXPECT_LT(tight.front().degrees.dp, 8);
}

TEST(LayoutChoice, ChoosesDegreesThatFillTheWorld) {
  const auto chosen = [](int pp, int dp, int ranks) {
    const Config config = with_degrees(pp, dp);
    return choose_degrees(config, plan_of(config), ranks);
  };
  const auto is = [](const Degrees& got, int pp, int dp) {
    EXPECT_EQ(got.pp, pp);
    EXPECT_EQ(got.dp, dp);
  };
  is(chosen(0, 0, 1), 1, 1);
  is(chosen(0, 0, 2), 1, 2);
  is(chosen(0, 0, 3), 3, 1);  // 16 samples have no thirds
  is(chosen(4, 0, 8), 4, 2);
  is(chosen(0, 2, 8), 4, 2);
}

TEST(LayoutChoice, RefusesWhatCannotBeAndSaysWhy) {
  const auto why = [](const Config& config, int ranks) {
    return message_of<InvalidArgument>(
        [&] { choose_degrees(config, plan_of(config), ranks); });
  };
  const auto has = [](const std::string& all, const std::string& part) {
    EXPECT_NE(all.find(part), std::string::npos) << all;
  };
  has(why(with_degrees(3, 0), 4), "expected pipelines that fill 4 ranks, got 1 of 3");
  has(why(with_degrees(2, 3), 4), "got 3 of 2");
  has(why(with_degrees(0, 8), 4), "fill 4 ranks");
  has(why(with_degrees(8, 1), 8), "expected at most 7 ranks in a pipeline");
  has(why(with_degrees(1, 3), 3), "a multiple of the 3 pipelines, got 16");
  Config other;
  other.parallelism.ranks = 3;
  has(why(other, 2), "expected parallelism.ranks to be the 2 ranks that were started");
}

LayoutCandidate candidate(int dp, bool fits = true) {
  return {.degrees = {.pp = 1, .dp = dp}, .threads = 1, .seconds = 1, .fits = fits};
}

TEST(LayoutChoice, TakesTheFastestAndSaysWhy) {
  const LayoutChoice choice = choose_layout(
      {candidate(1), candidate(2), candidate(4)},
      1000,
      [](const LayoutCandidate& one) -> std::optional<LayoutTrial> {
        return LayoutTrial{.step_s = one.degrees.dp == 2 ? 0.0881 : 0.1};
      });
  EXPECT_EQ(choice.layout.degrees.dp, 2);
  EXPECT_EQ(
      choice.why,
      "2 ranks (2 data parallel x 1 pipeline) of 1 thread, the best of 3 tried: "
      "88.1 ms a step; 1 rank of 1 thread: 100 ms; "
      "4 ranks (4 data parallel x 1 pipeline) of 1 thread: 100 ms");
}

TEST(LayoutChoice, LuckDoesNotDecide) {
  const auto chosen = [](double second) {
    return choose_layout(
               {candidate(1), candidate(2)},
               1000,
               [&](const LayoutCandidate& one) {
                 return std::optional(
                     LayoutTrial{.step_s = one.degrees.dp == 2 ? second : 0.1});
               })
        .layout.degrees.dp;
  };
  EXPECT_EQ(chosen(0.098), 1);
  EXPECT_EQ(chosen(0.096), 2);
}

TEST(LayoutChoice, TriesNothingWhereThatDoesNotPay) {
  int trials = 0;
  const TryLayout count = [&](const LayoutCandidate&) -> std::optional<LayoutTrial> {
    ++trials;
    return LayoutTrial{.step_s = 0.1, .took_s = 1};
  };
  EXPECT_EQ(choose_layout({candidate(2)}, 1000, count).why, "");
  EXPECT_EQ(
      choose_layout({candidate(2), candidate(1)}, 20, count).why,
      "2 ranks (2 data parallel x 1 pipeline) of 1 thread, the best of 2 by estimate");
  EXPECT_EQ(trials, 0);
}

TEST(LayoutChoice, StopsTryingWhenItHasTakenItsShareOfTheJob) {
  std::vector<LayoutCandidate> many(20, candidate(1));
  const auto trials_of = [&](int64_t steps, double took) {
    int trials = 0;
    choose_layout(many, steps, [&](const LayoutCandidate&) {
      ++trials;
      return std::optional(LayoutTrial{.step_s = 0.1, .took_s = took});
    });
    return trials;
  };
  EXPECT_EQ(trials_of(1000, 0.5), 6);
  EXPECT_EQ(trials_of(1000, 2), 3);  // 5 s in all
  EXPECT_EQ(trials_of(3000, 4), 4);  // a twentieth of 300 s
  EXPECT_EQ(trials_of(100, 60), 2);  // one alone would show nothing
}

TEST(LayoutChoice, WhatCannotRunIsNotChosen) {
  const TryLayout fails = [](const LayoutCandidate& one) -> std::optional<LayoutTrial> {
    if (one.degrees.dp > 1)
      return std::nullopt;
    return LayoutTrial{.step_s = 1};
  };
  EXPECT_EQ(
      choose_layout({candidate(4), candidate(2), candidate(1)}, 1000, fails)
          .layout.degrees.dp,
      1);
  // What has no room is not even tried.
  EXPECT_EQ(
      choose_layout({candidate(1, false), candidate(2, false)}, 1000, fails)
          .layout.degrees.dp,
      1);
}

}  // namespace
}  // namespace trireme::train
