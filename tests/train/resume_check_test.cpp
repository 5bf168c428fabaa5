#include "trireme/train/resume_check.h"

#include <gtest/gtest.h>

#include "tiny_job.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::train {
namespace {

/// A job of two steps, and what it says when it goes on otherwise.
class ResumeCheckRanks : public ::testing::Test {
 protected:
  void begin() {
    config_.training.steps = 2;
    run_job(config_, 1, 1);
    config_.training.steps = 4;
    config_.checkpoint.resume = "auto";
  }
  std::string error_of(const std::function<void(Config&)>& change, int pp = 1) const {
    Config config = config_;
    change(config);
    return testing::message_of<InvalidArgument>([&] { run_job(config, pp, 1); });
  }

  const testing::ScratchFolder folder_;
  Config config_ = tiny_config(folder_);
};

TEST_F(ResumeCheckRanks, AnotherModelOfTheSameShapesIsRefused) {
  begin();
  const std::string error = error_of([](Config& c) { c.model.n_heads = 4; });
  EXPECT_TRUE(testing::contains(error, "expected model.n_heads 4 in the checkpoint"));
  EXPECT_TRUE(testing::contains(error, ", got 2; ")) << error;
  EXPECT_TRUE(testing::contains(error, "--checkpoint.resume never")) << error;
}

TEST_F(ResumeCheckRanks, AnotherModelIsRefusedBeforeItsLayout) {
  config_.parallelism.pipeline_parallel_schedule = "auto";
  begin();
  for (const int ranks : {1, 2}) {
    const std::string fewer = error_of([](Config& c) { c.model.n_layers = 2; }, ranks);
    EXPECT_TRUE(testing::contains(fewer, "model.n_layers 2")) << fewer;
    EXPECT_TRUE(testing::contains(fewer, ", got 4; ")) << fewer;
  }
  const std::string llama = error_of([](Config& c) {
    c.model.name = "llama";
    c.model.dropout = -1;
  });
  EXPECT_TRUE(testing::contains(llama, "model.name \"llama\"")) << llama;
  const std::string untied =
      error_of([](Config& c) { c.model.tie_embeddings = false; });
  EXPECT_TRUE(testing::contains(untied, "model.tie_embeddings false")) << untied;
  const std::string wider = error_of([](Config& c) { c.model.hidden_dim = 64; });
  EXPECT_TRUE(testing::contains(wider, "model.hidden_dim 64")) << wider;
  EXPECT_TRUE(testing::contains(wider, ", got null; ")) << wider;
}

TEST_F(ResumeCheckRanks, DropoutAndPrecisionMayChange) {
  begin();
  config_.model.dropout = 0.2;
  EXPECT_EQ(run_job(config_, 1, 1).result.step, 4);
  config_.training.mixed_precision_param = "bfloat16";
  config_.training.steps = 5;
  EXPECT_EQ(run_job(config_, 1, 1).result.step, 5);
}

TEST_F(ResumeCheckRanks, AnotherModelFolderIsRefusedByItsOwnKey) {
  begin();
  const auto saved = run_job(config_, 1, 1).result.checkpoint;
  config_.model = {.hf_assets_path = saved};
  config_.training.steps = 5;
  EXPECT_EQ(run_job(config_, 1, 1).result.step, 5) << "the same model";
  Config other = tiny_config(folder_);
  other.job.dump_folder = (folder_.path() / "other").string();
  other.model.n_heads = 4;
  other.training.steps = 1;
  config_.model.hf_assets_path = run_job(other, 1, 1).result.checkpoint;
  config_.training.steps = 6;
  const std::string error = error_of([](Config&) {});
  EXPECT_TRUE(testing::contains(error, "n_head 4")) << error;
  EXPECT_TRUE(testing::contains(error, "model.hf_assets_path")) << error;
}

TEST_F(ResumeCheckRanks, StatesThatNobodyWouldTakeAreRefused) {
  begin();
  const std::string plain = error_of([](Config& c) { c.optimizer.name = "SGD"; });
  EXPECT_TRUE(testing::contains(plain, "optimizer.name SGD")) << plain;
  EXPECT_TRUE(testing::contains(plain, "got exp_avg, exp_avg_sq")) << plain;
  EXPECT_TRUE(testing::contains(plain, "--model.hf_assets_path")) << plain;
  const std::string heavy = error_of([](Config& c) {
    c.optimizer.name = "SGD";
    c.optimizer.momentum = 0.9;
  });
  EXPECT_TRUE(testing::contains(heavy, "optimizer.name SGD")) << heavy;
}

TEST_F(ResumeCheckRanks, MomentumIsNotDropped) {
  config_.optimizer.name = "SGD";
  config_.optimizer.momentum = 0.9;
  begin();
  const std::string none = error_of([](Config& c) { c.optimizer.momentum = 0; });
  EXPECT_TRUE(testing::contains(none, "optimizer.momentum 0")) << none;
  EXPECT_TRUE(testing::contains(none, "got momentum")) << none;
  config_.optimizer.momentum = 0.5;
  EXPECT_EQ(run_job(config_, 1, 1).result.step, 4);
}

}  // namespace
}  // namespace trireme::train
