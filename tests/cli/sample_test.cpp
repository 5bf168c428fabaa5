// What models say is in tests/integration/train_run_test.cpp and train_peer_test.cpp.
#include "trireme/cli/sample.h"

#include <gtest/gtest.h>

#include "torch_commands.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::cli {
namespace {

TorchOutcome run_sample(std::vector<std::string> words) {
  words.insert(words.begin(), "sample");
  return run_torch_command(words);
}

TEST(Sample, RefusesWhatIsWrong) {
  const testing::ScratchFolder folder;
  folder.write(
      "config.json",
      R"({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 1,
          "vocab_size": 10, "n_positions": 8})");
  const std::string model = folder.path().string();
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{}, "--model"},
      {{"--model", "/no/such"}, "without config.json"},
      {{"--model", model}, "no tokenizer.json, got no prompt"},
      {{"--model", model, "--prompt", "x"}, "expected --prompt-ids"},
      {{"--model", model, "--prompt-ids", "1,x"}, "got \"x\""},
      {{"--model", model, "--prompt-ids", "1,10"}, "numbers below 10"},
      {{"--model", model, "--prompt-ids", "1,"}, "got \"\""},
      {{"--model", model, "--prompt-ids", "1", "--stop", "x"}, "for --stop, got none"},
      {{"--model", model, "--prompt-ids", "1", "--temperature", "-1"}, "temperature"},
      {{"--model", model, "--prompt-ids", "1", "--top-p", "0"}, "top_p"},
      {{"--model", model, "--prompt-ids", "1", "--format", "xml"}, "--format"},
      {{"--model", model, "--prompt-ids", "1", "--ranks", "9"}, "at most 4 ranks"},
  };
  for (const auto& [words, part] : cases) {
    const TorchOutcome outcome = run_sample(words);
    EXPECT_EQ(outcome.code, 2) << part;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  }
}

TEST(Sample, ATokenizerThatIsNotSupportedIsNotNeededForIds) {
  const testing::ScratchFolder folder;
  folder.write(
      "config.json",
      R"({"model_type": "gpt2", "n_embd": 8, "n_layer": 1, "n_head": 1,
          "vocab_size": 10, "n_positions": 8})");
  folder.write("tokenizer.json", R"({"model": {"type": "WordPiece", "vocab": {}}})");
  const std::string model = folder.path().string();
  const TorchOutcome text = run_sample({"--model", model, "--prompt", "x"});
  EXPECT_EQ(text.code, 2);
  EXPECT_NE(text.err.find(", or give --prompt-ids"), std::string::npos) << text.err;
  const TorchOutcome ids = run_sample({"--model", model, "--prompt-ids", "1"});
  EXPECT_EQ(ids.code, 1) << "the weights are missing, which is found next";
  EXPECT_EQ(ids.err.find("tokenizer.json"), std::string::npos) << ids.err;
}

}  // namespace
}  // namespace trireme::cli
