// Several ranks are in tests/integration/train_run_test.cpp: a test with threads cannot
// fork them.
#include "trireme/cli/torch_ranks.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::cli {
namespace {

TEST(TorchRanks, OneRankIsThisProcess) {
  EXPECT_FALSE(is_rank());
  int called = 0;
  EXPECT_EQ(
      run_ranks(
          1,
          [&](const comm::Group& world) {
            ++called;
            EXPECT_EQ(world.size(), 1);
            return 3;
          }),
      3);
  EXPECT_EQ(called, 1);
}

TEST(TorchRanks, AFailureIsOneAndSaysWhy) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(run_ranks(1, [](const comm::Group&) -> int { throw Error("[x] why"); }), 1);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "trireme: [x] why\n");
}

TEST(TorchRanks, KnowsThatItIsARank) {
  ::setenv("RANK", "0", 1);
  ::setenv("WORLD_SIZE", "1", 1);
  EXPECT_TRUE(is_rank());
  ::unsetenv("RANK");
  ::unsetenv("WORLD_SIZE");
}

}  // namespace
}  // namespace trireme::cli
