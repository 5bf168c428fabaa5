// That a job goes on from its checkpoints is in trainer_test.cpp.
#include "trireme/train/training_state.h"

#include <gtest/gtest.h>

#include "tiny_job.h"
#include "trireme/ckpt/checkpoint.h"
#include "trireme/comm/mesh.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/train/estimate.h"
#include "trireme/train/model_source.h"
#include "trireme/train/schedule_choice.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

TEST(TrainingState, FindsWhatToGoOnFrom) {
  const testing::ScratchFolder folder;
  Config config;
  EXPECT_FALSE(find_resume(config, folder.path()));
  config.checkpoint.resume = "auto";
  EXPECT_FALSE(find_resume(config, folder.path()));
  config.checkpoint.resume = (folder.path() / "step-3").string();
  const std::string error =
      testing::message_of<InvalidArgument>([&] { find_resume(config, folder.path()); });
  EXPECT_TRUE(testing::contains(error, "checkpoint.resume: ")) << error;
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

TEST(TrainingStateRanks, MastersBecomeTheWeightsOfWholePrecision) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.training.steps = 3;
  config.training.mixed_precision_param = "bfloat16";
  const ckpt::Checkpoint checkpoint(run_job(config, 2, 1).result.checkpoint);
  const ckpt::WeightFiles states = checkpoint.optimizer();
  config.training.mixed_precision_param = "float32";
  comm::run_local(2, [&](const comm::Group& world) {
    const comm::Mesh mesh(world, {{"dp", 1}, {"pp", 2}});
    const Degrees degrees{.pp = 2, .dp = 1};
    const auto plan = describe_model(config, 256).plan;
    const BatchShape batch = choose_batch(config, degrees);
    const auto costs = estimate_layers(plan, config, batch);
    Engine engine(
        mesh,
        plan,
        first_layout(config, degrees, batch, costs),
        config,
        FirstWeights::Zeros);
    load_state(checkpoint.folder(), plan, config, engine);
    for (const auto& [name, tensor] : engine.optimizer().parameters()) {
      const std::string saved =
          name == "lm_head.weight" ? "transformer.wte.weight" : name;
      EXPECT_TRUE(testing::same(tensor.detach(), states.read("master." + saved)))
          << name;
    }
  });
}

TEST(TrainingStateRanks, DamageIsNamed) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.training.steps = 1;
  const fs::path saved = run_job(config, 1, 1).result.checkpoint;
  config.training.steps = 2;
  config.checkpoint.resume = "auto";
  fs::resize_file(saved / "optimizer.safetensors", 100);
  EXPECT_TRUE(testing::contains(
      testing::message_of<InvalidArgument>([&] { run_job(config, 1, 1); }),
      "optimizer.safetensors"));
}

}  // namespace
}  // namespace trireme::train
