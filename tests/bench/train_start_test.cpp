#include "trireme/bench/train_start.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::bench {
namespace {

const StartJob kJob{
    .model =
        {.dim = 8, .layers = 2, .heads = 2, .sequence = 8, .batch = 4, .microbatch = 2},
    .ranks = 2,
    .data = "text.txt"};

TEST(BenchTrainStart, CommandsNameTheSameJob) {
  const auto ours = our_start_command("/folder/trireme-torch", kJob, "/run");
  EXPECT_EQ(ours[0], "/folder/trireme");
  const auto key = std::find(ours.begin(), ours.end(), "--training.global_batch_size");
  ASSERT_NE(key, ours.end());
  EXPECT_EQ(key[1], "4");
  const auto peer = peer_start_command({"python3", "train.py"}, kJob, 1234);
  ASSERT_EQ(peer.size(), 4U);
  EXPECT_EQ(peer[2], "--start");
  EXPECT_NE(peer[3].find("\"batch\":4"), std::string::npos) << peer[3];
  EXPECT_NE(peer[3].find("\"port\":1234"), std::string::npos) << peer[3];
}

TEST(BenchTrainStartProcs, TheClockStopsAtTheMark) {
  const double time =
      time_until({"sh", "-c", "echo rowing >&2; echo first; sleep 1"}, "first");
  EXPECT_GT(time, 0);
  EXPECT_LT(time_until({"sh", "-c", "echo rowing; sleep 1"}, "rowing"), 60e6);
}

TEST(BenchTrainStartProcs, ACommandThatFailsOrSaysNothingIsAnError) {
  try {
    time_until({"sh", "-c", "echo first; echo the oar broke >&2; exit 3"}, "first");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the oar broke"), std::string::npos);
  }
  EXPECT_THROW(time_until({"true"}, "first"), Error);
}

TEST(BenchTrainStartProcs, OurProgramReachesItsFirstStep) {
  const testing::ScratchFolder folder;
  StartJob job = kJob;
  job.data = folder.write("text.txt", std::string(1000, 'a'));
  EXPECT_GT(
      time_until(
          our_start_command(TRIREME_BENCH_PROGRAM, job, folder.path() / "run"),
          kOurFirstStep),
      1000);
}

}  // namespace
}  // namespace trireme::bench
