#include "trireme/cli/nearest.h"

#include <gtest/gtest.h>

namespace trireme::cli {
namespace {

TEST(Nearest, FindsWhatWasMistyped) {
  const std::vector<std::string> words{"train", "bench", "doctor"};
  EXPECT_EQ(nearest("doctr", words), "doctor");
  EXPECT_EQ(nearest("trian", words), "train");
  EXPECT_EQ(nearest("Bench", words), "bench");
  EXPECT_EQ(nearest("", {"bb", "a"}), "a");
}

TEST(Nearest, CountsASwapOfNeighboursOnce) {
  EXPECT_EQ(nearest("ab", {"cb", "ba"}), "cb");  // equal, so the first
  EXPECT_EQ(nearest("abcd", {"xycd", "bacd"}), "bacd");
}

TEST(Nearest, TakesAnyLength) {
  EXPECT_EQ(nearest(std::string(1 << 20, 'x'), {"train"}), "train");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Nearest, DoesNotGuessBeyondItsLimit) {
  EXPECT_EQ(nearest("abc", {"abd"}, 1), "abd");
  EXPECT_EQ(nearest("abc", {"add"}, 1), "");
}

}  // namespace
}  // namespace trireme::cli
