#include "trireme/core/nearest.h"

#include <gtest/gtest.h>

namespace trireme {
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
  EXPECT_EQ(nearest("abc", {"bac"}), "bac");
}

TEST(Nearest, TakesAnyLength) {
  EXPECT_EQ(nearest(std::string(1 << 20, 'x'), {"train"}), "");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Nearest, DoesNotGuessWhatIsFarAway) {
  const std::vector<std::string> words{"train", "bench", "doctor"};
  EXPECT_EQ(nearest("bogus", words), "");
  EXPECT_EQ(nearest("x", words), "");
  EXPECT_EQ(nearest("", words), "");
}

TEST(Nearest, AllowsAStepForEveryThreeLetters) {
  EXPECT_EQ(nearest("x", {"a"}), "a");
  EXPECT_EQ(nearest("abc", {"abd"}), "abd");
  EXPECT_EQ(nearest("abc", {"add"}), "");
  EXPECT_EQ(nearest("abcd", {"addd"}), "addd");
  EXPECT_EQ(nearest("abcdef", {"abcxyz"}), "");
  EXPECT_EQ(nearest("abcdefg", {"abcdxyz"}), "abcdxyz");
  EXPECT_EQ(nearest("abcdef", {"abcd"}), "abcd");
  EXPECT_EQ(nearest("abcdef", {"abc"}), "");
}

TEST(Nearest, EndsAMessage) {
  EXPECT_EQ(did_you_mean("trian", {"train", "bench"}), "; did you mean train?");
  EXPECT_EQ(did_you_mean("bogus", {"train", "bench"}), "");
}

}  // namespace
}  // namespace trireme
