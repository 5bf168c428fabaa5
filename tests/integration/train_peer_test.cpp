// A job of ours and one in PyTorch, with the same model, file and optimizer, have the
// same losses and norms; and a model samples the same text: tests/peer/train_models.py
// is the other side.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "../launch/launched.h"
#include "trireme/testing/peer.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::launch {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class TrainPeer : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = testing::peer_missing({"transformers", "numpy"});
    if (!missing.empty())
      GTEST_SKIP() << missing;
    run(
        {std::getenv("TRIREME_PYTHON"),
         "-B",
         TRAIN_MODELS,
         "make",
         folder_.path().string()});
  }

  static std::string run(const std::vector<std::string>& words) {
    Launched launched(words);
    EXPECT_EQ(launched.finish(), Ending{}) << launched.err();
    return launched.out();
  }

  static std::string read(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  /// Ten steps on consecutive windows, as the other side takes them.
  std::vector<json> train(const std::string& model, int pp, int dp) const {
    const fs::path run_folder = folder_.path() / text(model, "-", pp, "-", dp);
    std::vector<std::string> words{
        TRIREME_PROGRAM,
        "train",
        "--job.dump_folder",
        run_folder.string(),
        "--model.hf_assets_path",
        (folder_.path() / model).string(),
        "--data.path",
        (folder_.path() / "tokens.bin").string(),
        "--data.shuffle",
        "false",
        "--training.seq_len",
        "16",
        "--training.global_batch_size",
        "4",
        "--training.steps",
        "10",
        "--lr_scheduler.warmup_steps",
        "3",
        "--lr_scheduler.decay_type",
        "linear",
        "--optimizer.lr",
        "3e-3",
        "--parallelism.pipeline_parallel_degree",
        std::to_string(pp),
        "--parallelism.data_parallel_replicate_degree",
        std::to_string(dp)};
    if (pp > 1)
      words.insert(words.end(), {"--parallelism.pipeline_parallel_schedule", "1F1B"});
    run(words);
    std::vector<json> steps;
    std::istringstream lines(read(run_folder / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      steps.push_back(json::parse(line));
    return steps;
  }

  const testing::ScratchFolder folder_;
};

TEST_F(TrainPeer, LossesAndNormsAreThoseOfPyTorch) {
  for (const std::string model : {"gpt2", "llama"})
    for (const auto& [pp, dp] : {std::pair{1, 1}, std::pair{2, 2}}) {
      SCOPED_TRACE(text(model, ", ", pp, " x ", dp));
      const json theirs = json::parse(read(folder_.path() / model / "losses.json"));
      const auto ours = train(model, pp, dp);
      ASSERT_EQ(ours.size(), theirs.size());
      for (size_t i = 0; i < ours.size(); ++i) {
        // Kernels differ (fused AdamW, attention), and ten steps add that up.
        const double loss = theirs[i]["loss"];
        EXPECT_NEAR(ours[i]["loss"].get<double>(), loss, 1e-5 * loss) << i;
        const double norm = theirs[i]["grad_norm"];
        EXPECT_NEAR(ours[i]["grad_norm"].get<double>(), norm, 1e-4 * norm) << i;
      }
    }
}

TEST_F(TrainPeer, GreedyTextIsThatOfTransformers) {
  for (const std::string model : {"gpt2", "llama"}) {
    SCOPED_TRACE(model);
    const std::string path = (folder_.path() / model).string();
    const json theirs = json::parse(
        run({std::getenv("TRIREME_PYTHON"), "-B", TRAIN_MODELS, "greedy", path}));
    for (const char* ranks : {"1", "2"}) {
      const json ours = json::parse(run(
          {TRIREME_PROGRAM,
           "sample",
           "--model",
           path,
           "--prompt-ids",
           "3,1,4",
           "--max-new-tokens",
           "12",
           "--temperature",
           "0",
           "--format",
           "json",
           "--ranks",
           ranks}));
      EXPECT_EQ(ours["ids"], theirs["ids"]);
      EXPECT_EQ(ours["new_ids"], theirs["new_ids"]);
      EXPECT_TRUE(ours["text"].is_null());
      ASSERT_EQ(ours["logprobs"].size(), theirs["logprobs"].size());
      for (size_t i = 0; i < ours["logprobs"].size(); ++i)
        EXPECT_NEAR(
            ours["logprobs"][i].get<double>(),
            theirs["logprobs"][i].get<double>(),
            1e-4);
    }
  }
}

}  // namespace
}  // namespace trireme::launch
