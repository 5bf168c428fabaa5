#include "trireme/cli/rank_count.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/core/machine.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::cli {
namespace {

std::string refusal(const std::string& value, const RankSources& sources) {
  try {
    return text("took it for ", parse_rank_count(value, sources));
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

TEST(RankCount, IsANumberOrAWord) {
  const RankSources both{.cores = 8, .gpus = 2};
  const RankSources cores{.cores = 8, .gpus = 0};
  EXPECT_EQ(parse_rank_count("3", both), 3);
  EXPECT_EQ(parse_rank_count("cpu", both), 8);
  EXPECT_EQ(parse_rank_count("gpu", both), 2);
  EXPECT_EQ(parse_rank_count("auto", both), 2);
  EXPECT_EQ(parse_rank_count("auto", cores), 8);
  // Whether so many can be started is for the launcher to say.
  EXPECT_EQ(parse_rank_count("0", cores), 0);
  EXPECT_EQ(parse_rank_count("-3", cores), -3);
}

TEST(RankCount, RefusesAnythingElse) {
  for (const char* value :
       {"", "two", "2.5", " 2", "2 ", "+2", "0x2", "CPU", "99999999999", "1e3"}) {
    const std::string what = refusal(value, {});
    EXPECT_TRUE(
        what.starts_with("[cli] expected the number of ranks (-n) to be a whole "))
        << what;
    EXPECT_TRUE(what.ends_with(text("got \"", value, "\"; for instance -n 4"))) << what;
  }
}

TEST(RankCount, NeedsAGpuToCountThem) {
  const std::string what = refusal("gpu", {.cores = 8, .gpus = 0});
  EXPECT_TRUE(what.starts_with("[cli] expected as many ranks as GPUs")) << what;
}

TEST(RankSources, CountTheVisibleGpus) {
  const testing::ScratchFolder devices;
  const std::pair<const char*, int> cases[] = {
      {"", 0},
      {"0", 1},
      {"0,1,5", 3},
      {"0,1,", 2},
      {"-1", 0},
      {"0,-1,1", 1},
      {"0,,1", 1},
      {",0", 0},
      {"GPU-8932f937-d72c,MIG-42,7", 3},
      {"NoDevFiles", 0},
      {"none", 0},
      {"0,none", 1}};
  for (const auto& [visible, count] : cases) {
    const Environment env{{"CUDA_VISIBLE_DEVICES", visible}};
    EXPECT_EQ(rank_sources(env, devices.path()).gpus, count) << visible;
  }
}

TEST(RankSources, CountTheDevicesOtherwise) {
  const testing::ScratchFolder devices;
  EXPECT_EQ(rank_sources(Environment(), devices.path()).gpus, 0);
  for (const char* name :
       {"nvidia0", "nvidia12", "nvidiactl", "nvidia-uvm", "nvidia", "nvidia0x", "null"})
    devices.write(name, "");
  EXPECT_EQ(rank_sources(Environment(), devices.path()).gpus, 2);
  EXPECT_EQ(rank_sources(Environment(), "/nonexistent").gpus, 0);
}

TEST(RankSources, KnowTheCoresOfThisProcess) {
  EXPECT_EQ(rank_sources(Environment()).cores, available_cores());
}

}  // namespace
}  // namespace trireme::cli
