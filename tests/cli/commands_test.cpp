#include "trireme/cli/commands.h"

#include <vector>

#include <gtest/gtest.h>

#include "trireme/version.h"

namespace trireme::cli {
namespace {

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

Outcome run(std::vector<const char*> words) {
  words.insert(words.begin(), "trireme-torch");
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int code = run_commands(static_cast<int>(words.size()), words.data());
  return {
      code,
      ::testing::internal::GetCapturedStdout(),
      ::testing::internal::GetCapturedStderr()};
}

TEST(Commands, HelpWithEachAndAnExample) {
  for (const char* command : {"train", "sample", "bench", "doctor"}) {
    const Outcome outcome = run({command, "--help"});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_NE(
        outcome.out.find(std::string("Usage: trireme ") + command), std::string::npos)
        << outcome.out;
    EXPECT_NE(outcome.out.find("Example"), std::string::npos) << outcome.out;
  }
}

TEST(Commands, TellsItsVersion) {
  EXPECT_EQ(run({"--version"}).out, std::string(kVersion) + "\n");
}

TEST(Commands, WrongUsageIsTwo) {
  for (const auto& words :
       {std::vector<const char*>{},
        {"unknown"},
        {"sample", "--unknown"},
        {"doctor", "x"}}) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(outcome.err.starts_with("trireme: [cli] ")) << outcome.err;
  }
}

TEST(Commands, FailureIsOneAndSaysWhy) {
  const Outcome outcome = run({"doctor", "--flight", "/nowhere"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(outcome.err.starts_with("trireme: [comm] expected a folder"))
      << outcome.err;
}

}  // namespace
}  // namespace trireme::cli
