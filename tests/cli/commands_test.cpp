#include "trireme/cli/commands.h"

#include <vector>

#include <gtest/gtest.h>

#include "torch_commands.h"
#include "trireme/version.h"

namespace trireme::cli {
namespace {

TEST(Commands, HelpWithEachAndAnExample) {
  for (const char* command : {"train", "sample", "doctor"}) {
    const TorchOutcome outcome = run_torch_command({command, "--help"});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_NE(
        outcome.out.find(std::string("Usage: trireme ") + command), std::string::npos)
        << outcome.out;
    EXPECT_NE(outcome.out.find("Example"), std::string::npos) << outcome.out;
  }
}

TEST(Commands, TellsItsVersion) {
  EXPECT_EQ(run_torch_command({"--version"}).out, std::string(kVersion) + "\n");
}

TEST(Commands, WrongUsageIsTwo) {
  for (const auto& words :
       {std::vector<std::string>{},
        {"unknown"},
        {"sample", "--unknown"},
        {"doctor", "x"}}) {
    const TorchOutcome outcome = run_torch_command(words);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(outcome.err.starts_with("trireme: [cli] ")) << outcome.err;
  }
}

TEST(Commands, FailureIsOneAndSaysWhy) {
  const TorchOutcome outcome = run_torch_command({"doctor", "--flight", "/nowhere"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(outcome.err.starts_with("trireme: [comm] expected a folder"))
      << outcome.err;
}

}  // namespace
}  // namespace trireme::cli
