// Several ranks are in tests/integration/train_run_test.cpp: a test with threads cannot
// fork them.
#include "trireme/cli/torch_ranks.h"

#include <cstdlib>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/core/machine.h"

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

TEST(TorchRanks, TakesTheThreadsThatItsLauncherGives) {
  const char* before = std::getenv("OMP_NUM_THREADS");
  const std::string kept = before != nullptr ? before : "";
  const int threads = at::get_num_threads();
  int seen = 0;
  const auto look = [&seen](const comm::Group&) {
    seen = at::get_num_threads();
    return 0;
  };
  // As for ranks that outnumber the cores, where each thread more makes all wait.
  for (const int given : {1, 3}) {
    ::setenv("OMP_NUM_THREADS", text(given).c_str(), 1);
    EXPECT_EQ(run_ranks(1, look), 0);
    EXPECT_EQ(seen, given);
  }
  ::unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(run_ranks(1, look), 0);
  EXPECT_EQ(seen, available_cores());  // a rank that is alone has them all
  if (before != nullptr)
    ::setenv("OMP_NUM_THREADS", kept.c_str(), 1);
  at::set_num_threads(threads);
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
