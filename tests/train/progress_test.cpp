#include "trireme/train/progress.h"

#include <algorithm>
#include <sstream>

#include <gtest/gtest.h>

namespace trireme::train {
namespace {

const StepMetrics kStep{
    .step = 20,
    .loss = 2.1126,
    .tokens_per_s = 12345.4,
    .bubble = 0.081,
    .peak_bytes = int64_t{210} << 20};

TEST(Progress, TellsAStepInALine) {
  EXPECT_EQ(
      to_text(kStep, 600, 62),
      "step 20/600  loss 2.113  12,345 tokens/s  bubble 8.1 %  210 MiB  1:02 left");
}

TEST(Progress, ShowsNumbersForPeople) {
  EXPECT_EQ(clock_text(5), "0:05");
  EXPECT_EQ(clock_text(7290), "2:01:30");
  EXPECT_EQ(clock_text(-1), "?");
}

TEST(Progress, DrawsABar) {
  EXPECT_EQ(draw_bar(0, 12), "[>         ]");
  EXPECT_EQ(draw_bar(0.5, 12), "[=====>    ]");
  EXPECT_EQ(draw_bar(1, 12), "[==========]");
}

TEST(Progress, LinesComeEveryFewSteps) {
  std::ostringstream out;
  Progress progress(out, {.style = ProgressStyle::Lines, .every = 10, .steps = 25});
  for (int64_t step = 1; step <= 25; ++step)
    progress.show({.step = step}, 0);
  progress.finish();
  int lines = 0;
  for (const char c : out.str())
    lines += c == '\n' ? 1 : 0;
  EXPECT_EQ(lines, 4);  // 1, 10, 20, 25
  EXPECT_EQ(out.str().find('\r'), std::string::npos);
}

TEST(Progress, TheBarStaysInItsLine) {
  std::ostringstream out;
  Progress progress(
      out, {.style = ProgressStyle::Bar, .every = 10, .steps = 25, .width = 100});
  progress.show(kStep, 3);
  progress.show(kStep, 3);
  EXPECT_EQ(out.str().find('\n'), std::string::npos);
  progress.say("hello");
  progress.show(kStep, 3);
  progress.finish();
  EXPECT_NE(out.str().find("\r\033[Khello\n"), std::string::npos);
  EXPECT_TRUE(out.str().ends_with("\n"));
}

TEST(Progress, ANarrowTerminalKeepsTheTimeLeft) {
  const std::string medium =
      "step 20/600  loss 2.113  12,345 tokens/s  bubble 8.1 %  1:02 left";
  const int columns = static_cast<int>(medium.size());
  EXPECT_EQ(to_text(kStep, 600, 62, columns), medium);
  EXPECT_EQ(
      to_text(kStep, 600, 62, columns - 1),
      "step 20/600  loss 2.113  12,345 tokens/s  1:02 left");
  EXPECT_EQ(
      to_text(kStep, 600, 62, -1),
      "step 20/600  loss 2.113  12,345 tokens/s  1:02 left");
  std::ostringstream out;
  Progress progress(out, {.style = ProgressStyle::Bar, .steps = 600, .width = 60});
  progress.show(kStep, 62);
  EXPECT_NE(out.str().find("1:02 left"), std::string::npos) << out.str();
}

TEST(Progress, TheBarIsNotDrawnForEveryStepButEndsWithTheLast) {
  std::ostringstream out;
  Progress progress(out, {.style = ProgressStyle::Bar, .steps = 100'000});
  constexpr int64_t kSteps = 20'000;
  for (int64_t step = 1; step <= kSteps; ++step)
    progress.show({.step = step}, 0);
  progress.finish();
  const std::string all = out.str();
  EXPECT_LT(std::count(all.begin(), all.end(), '\r'), kSteps / 2);
  const std::string last = all.substr(all.rfind('\r'));
  EXPECT_NE(last.find("step 20000/100000"), std::string::npos) << last;
  EXPECT_TRUE(last.ends_with("\n"));
}

TEST(Progress, StyleFollowsTheTerminal) {
  EXPECT_EQ(progress_style("auto", true), ProgressStyle::Bar);
  EXPECT_EQ(progress_style("auto", false), ProgressStyle::Lines);
  EXPECT_EQ(progress_style("bar", false), ProgressStyle::Bar);
  EXPECT_EQ(progress_style("none", true), ProgressStyle::None);
}

}  // namespace
}  // namespace trireme::train
