// That a job goes on from its checkpoints is in trainer_test.cpp.
#include "trireme/train/training_state.h"

#include <gtest/gtest.h>

#include "tiny_job.h"
#include "trireme/ckpt/checkpoint.h"
#include "trireme/core/error.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

TEST(TrainingState, FindsWhatToGoOnFrom) {
  const testing::ScratchFolder folder;
  Config config;
  EXPECT_FALSE(find_resume(config, folder.path()));
  config.checkpoint.resume = "auto";
  EXPECT_FALSE(find_resume(config, folder.path()));
  config.checkpoint.resume = "some/step-3";
  EXPECT_EQ(find_resume(config, folder.path()), fs::path("some/step-3"));
}

TEST(TrainingStateRanks, TiedParametersAndTheirStatesAreSavedOnce) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.training.steps = 1;
  const JobOutcome outcome = run_job(config, 2, 1);
  const ckpt::Checkpoint checkpoint(outcome.result.checkpoint);
  EXPECT_EQ(checkpoint.step(), 1);
  const ckpt::WeightFiles weights = checkpoint.weights();
  EXPECT_TRUE(weights.has("transformer.wte.weight"));
  EXPECT_FALSE(weights.has("lm_head.weight"));
  const ckpt::WeightFiles states = checkpoint.optimizer();
  EXPECT_TRUE(states.has("exp_avg.transformer.wte.weight"));
  EXPECT_FALSE(states.has("exp_avg.lm_head.weight"));
  EXPECT_EQ(states.names().size(), 3 * weights.names().size());
}

TEST(TrainingStateRanks, DamageIsNamed) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.training.steps = 1;
  const fs::path saved = run_job(config, 1, 1).result.checkpoint;
  config.training.steps = 2;
  config.checkpoint.resume = "auto";
  const auto error_of = [&] {
    try {
      run_job(config, 1, 1);
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  fs::resize_file(saved / "optimizer.safetensors", 100);
  EXPECT_NE(error_of().find("optimizer.safetensors"), std::string::npos) << error_of();
}

}  // namespace
}  // namespace trireme::train
