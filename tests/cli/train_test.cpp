// Whole runs are in tests/integration/train_run_test.cpp.
#include "trireme/cli/train.h"

#include <gtest/gtest.h>

#include "trireme/cli/commands.h"

namespace trireme::cli {
namespace {

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

Outcome run(std::vector<const char*> words) {
  words.insert(words.begin(), {"trireme", "train"});
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int code = run_commands(static_cast<int>(words.size()), words.data());
  return {
      code,
      ::testing::internal::GetCapturedStdout(),
      ::testing::internal::GetCapturedStderr()};
}

TEST(Train, PrintsItsConfig) {
  const Outcome outcome =
      run({"--training.steps", "7", "--print-config", "--data.shuffle=false"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("steps = 7 "), std::string::npos);
  EXPECT_NE(outcome.out.find("shuffle = false "), std::string::npos);
}

TEST(Train, ExplainsItsKeys) {
  const Outcome outcome = run({"--help-keys"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(
      outcome.out.find("--training.steps\n    Steps in all; a whole number of at "
                       "least 1\n"),
      std::string::npos)
      << outcome.out;
}

TEST(Train, WrongWordsAreWrongUsage) {
  for (const std::vector<const char*>& words :
       {std::vector<const char*>{"--unknown"},
        {"--training.steps"},
        {"/no/such.toml"},
        {"--training.steps", "0"},
        {"--model.name", "gpt3"}}) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 2) << words[0];
    EXPECT_TRUE(outcome.err.starts_with("trireme: [")) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
}

TEST(Train, DescribesAJobWithoutRunningIt) {
  const Outcome outcome = run({"--dry-run", "--parallelism.ranks", "4"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("4 ranks: 2 pipelines of 2"), std::string::npos)
      << outcome.out;
}

}  // namespace
}  // namespace trireme::cli
