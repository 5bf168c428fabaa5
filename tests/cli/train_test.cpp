// Whole runs are in tests/integration/train_run_test.cpp.
#include "trireme/cli/train.h"

#include <gtest/gtest.h>

#include "torch_commands.h"

namespace trireme::cli {
namespace {

TorchOutcome run_train(std::vector<std::string> words) {
  words.insert(words.begin(), "train");
  return run_torch_command(words);
}

TEST(Train, PrintsItsConfig) {
  const TorchOutcome outcome =
      run_train({"--training.steps", "7", "--print-config", "--data.shuffle=false"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("steps = 7 "), std::string::npos);
  EXPECT_NE(outcome.out.find("shuffle = false "), std::string::npos);
}

TEST(Train, ExplainsItsKeys) {
  const TorchOutcome outcome = run_train({"--help-keys"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(
      outcome.out.find("--training.steps\n    Steps in all; a whole number of at "
                       "least 1\n"),
      std::string::npos)
      << outcome.out;
}

TEST(Train, WrongWordsAreWrongUsage) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--unknown"},
        {"--training.steps"},
        {"/no/such.toml"},
        {"--training.steps", "0"},
        {"--model.name", "gpt3"}}) {
    const TorchOutcome outcome = run_train(words);
    EXPECT_EQ(outcome.code, 2) << words[0];
    EXPECT_TRUE(outcome.err.starts_with("trireme: [")) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
}

TEST(Train, DescribesAJobWithoutRunningIt) {
  const TorchOutcome outcome = run_train({"--dry-run", "--parallelism.ranks", "4"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("4 ranks: 4 pipelines of 1"), std::string::npos)
      << outcome.out;
}

}  // namespace
}  // namespace trireme::cli
