#include "trireme/train/trainer.h"

#include <atomic>
#include <fstream>
#include <iterator>
#include <sstream>

#include <gtest/gtest.h>

#include "probe_model.h"
#include "tiny_job.h"
#include "trireme/ckpt/checkpoint.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The sums of a step are taken in another order in every layout; what that makes of
/// the weights after 20 steps stays below this in float32.
constexpr double kRelative = 1e-5;

void expect_same_curve(const JobOutcome& one, const JobOutcome& other) {
  ASSERT_EQ(one.steps.size(), other.steps.size());
  for (size_t i = 0; i < one.steps.size(); ++i) {
    const double loss = one.steps[i].loss;
    EXPECT_NEAR(other.steps[i].loss, loss, kRelative * loss) << "step " << i;
    const double norm = one.steps[i].grad_norm;
    EXPECT_NEAR(other.steps[i].grad_norm, norm, 10 * kRelative * norm) << "step " << i;
  }
  EXPECT_NEAR(
      *other.result.held_out_after,
      *one.result.held_out_after,
      kRelative * *one.result.held_out_after);
}

void expect_same_files(const fs::path& one, const fs::path& other) {
  for (const auto& entry : fs::directory_iterator(one))
    if (entry.path().extension() == ".safetensors") {
      EXPECT_TRUE(read(entry.path()) == read(other / entry.path().filename()))
          << entry.path();
    }
}

TEST(TrainerRanks, EveryLayoutHasTheSameLossCurve) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.training.steps = 20;
  const JobOutcome one = run_job(config, 1, 1);
  EXPECT_LT(one.steps.back().loss, one.steps.front().loss);
  expect_same_curve(one, run_job(config, 2, 1));
  expect_same_curve(one, run_job(config, 1, 2));
  expect_same_curve(one, run_job(config, 2, 2));
}

TEST(TrainerRanks, EveryScheduleHasTheSameLossCurve) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  const JobOutcome one = run_job(config, 1, 1);
  for (const char* schedule :
       {"GPipe", "Interleaved1F1B", "ZBVZeroBubble", "InterleavedZeroBubble"}) {
    SCOPED_TRACE(schedule);
    config.parallelism.pipeline_parallel_schedule = schedule;
    expect_same_curve(one, run_job(config, 2, 1));
  }
  config.parallelism.pipeline_parallel_schedule = "auto";
  expect_same_curve(one, run_job(config, 2, 1));
}

TEST(TrainerRanks, LlamaTrainsInEveryLayoutAlike) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.model.name = "llama";
  config.model.dropout = 0;
  config.model.n_kv_heads = 1;
  config.model.tie_embeddings = false;
  const JobOutcome one = run_job(config, 1, 1);
  EXPECT_LT(one.steps.back().loss, one.steps.front().loss);
  expect_same_curve(one, run_job(config, 2, 2));
}

TEST(TrainerRanks, AccumulationAndRecomputeChangeNothing) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  const JobOutcome one = run_job(config, 1, 1);
  Config parts = config;
  parts.training.local_batch_size = 2;
  expect_same_curve(one, run_job(parts, 1, 1));
  parts.training.local_batch_size = 4;
  expect_same_curve(one, run_job(parts, 2, 1));
  parts.training.local_batch_size = 2;
  expect_same_curve(one, run_job(parts, 1, 2));
  Config again = config;
  again.activation_checkpoint.mode = "full";
  const JobOutcome recomputed = run_job(again, 1, 1);
  for (size_t i = 0; i < one.steps.size(); ++i)
    EXPECT_EQ(recomputed.steps[i].loss, one.steps[i].loss);  // bit for bit
}

TEST(TrainerRanks, HalfPrecisionLearnsToo) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.training.steps = 20;
  const JobOutcome whole = run_job(config, 1, 1);
  config.training.mixed_precision_param = "bfloat16";
  for (const auto& [pp, dp] : {std::pair{1, 1}, std::pair{2, 2}}) {
    const JobOutcome half = run_job(config, pp, dp);
    // bfloat16 has 8 bits: 2 % of a loss near 3 is what rounding makes of it.
    EXPECT_NEAR(half.steps.back().loss, whole.steps.back().loss, 0.06);
    EXPECT_LT(half.steps.back().loss, half.steps.front().loss - 0.5);
  }
}

TEST(TrainerRanks, GoesOnBitForBit) {
  const testing::ScratchFolder folder;
  for (const auto& [pp, dp] : {std::pair{1, 1}, std::pair{2, 1}, std::pair{2, 2}}) {
    SCOPED_TRACE(text(pp, " x ", dp));
    Config config = tiny_config(folder);
    config.training.steps = 8;
    config.job.dump_folder = (folder.path() / text("whole", pp, dp)).string();
    const JobOutcome whole = run_job(config, pp, dp);
    config.job.dump_folder = (folder.path() / text("parts", pp, dp)).string();
    std::atomic<int> asked{0};
    const int ranks = pp * dp;
    const JobOutcome first =
        run_job(config, pp, dp, {.should_stop = [&] { return ++asked > 2 * ranks; }});
    EXPECT_TRUE(first.result.stopped);
    EXPECT_EQ(first.result.step, 3);
    config.checkpoint.resume = "auto";
    const JobOutcome second = run_job(config, pp, dp);
    ASSERT_EQ(second.steps.size(), 5U);
    for (size_t i = 0; i < second.steps.size(); ++i) {
      EXPECT_EQ(second.steps[i].step, whole.steps[i + 3].step);
      EXPECT_EQ(second.steps[i].loss, whole.steps[i + 3].loss);
      EXPECT_EQ(second.steps[i].grad_norm, whole.steps[i + 3].grad_norm);
    }
    expect_same_files(whole.result.checkpoint, second.result.checkpoint);
  }
}

TEST(TrainerRanks, AChosenScheduleStaysWhenItGoesOn) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.training.steps = 4;
  // As if measuring had chosen this one.
  config.parallelism.pipeline_parallel_schedule = "ZBVZeroBubble";
  run_job(config, 2, 1);
  config.training.steps = 5;
  config.checkpoint.resume = "auto";
  config.parallelism.pipeline_parallel_schedule = "auto";
  std::ostringstream progress;
  run_job(config, 2, 1, {.progress = &progress});
  EXPECT_NE(progress.str().find("schedule: ZBVZeroBubble\n"), std::string::npos)
      << progress.str();
}

TEST(TrainerRanks, ANewRunDoesNotMixWithAnother) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.training.steps = 1;
  run_job(config, 1, 1);
  EXPECT_THROW(run_job_there(config, 1, 1), InvalidArgument);
  config.checkpoint = {.enable = false};
  EXPECT_NO_THROW(run_job_there(config, 1, 1));
}

TEST(TrainerRanks, GoesOnInAnotherLayout) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.training.steps = 8;
  config.job.dump_folder = (folder.path() / "whole").string();
  const JobOutcome whole = run_job(config, 1, 1);
  config.job.dump_folder = (folder.path() / "parts").string();
  std::atomic<int> asked{0};
  run_job(config, 2, 1, {.should_stop = [&] { return ++asked > 4; }});
  config.checkpoint.resume = "auto";
  config.parallelism.pipeline_parallel_schedule = "ZBVZeroBubble";
  const JobOutcome second = run_job(config, 2, 2);
  ASSERT_EQ(second.steps.size(), 5U);
  for (size_t i = 0; i < second.steps.size(); ++i)
    EXPECT_NEAR(
        second.steps[i].loss,
        whole.steps[i + 3].loss,
        kRelative * whole.steps[i + 3].loss);
}

TEST(TrainerRanks, RefusesACheckpointOfAnotherOrder) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.training.steps = 2;
  const JobOutcome first = run_job(config, 1, 1);
  config.training.steps = 4;
  config.checkpoint.resume = first.result.checkpoint;
  config.training.seed = 9;
  EXPECT_THROW(run_job(config, 1, 1), InvalidArgument);
  config.training.seed = 1;
  config.model.dim = 64;
  EXPECT_THROW(run_job(config, 1, 1), InvalidArgument);
}

TEST(TrainerRanks, WritesWhatItPromises) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.checkpoint = {.interval = 2, .keep_latest_k = 2};
  config.profiling.profile_freq = 3;
  std::ostringstream progress;
  std::ostringstream report;
  const JobOutcome outcome =
      run_job(config, 2, 1, {.progress = &progress, .report = &report});
  const fs::path run = config.job.dump_folder;
  for (const char* name :
       {"config.toml",
        "metrics.jsonl",
        "schedule.svg",
        "schedule_planned.svg",
        "trace.json",
        "trace-3.json",
        "checkpoint/step-4/config.json",
        "checkpoint/step-6/trainer.json"})
    EXPECT_TRUE(fs::is_regular_file(run / name)) << name;
  EXPECT_FALSE(fs::exists(run / "checkpoint/step-2"));
  const std::string lines = read(run / "metrics.jsonl");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 6);
  EXPECT_NE(progress.str().find("schedule: 1F1B"), std::string::npos);
  EXPECT_NE(progress.str().find("step 6/6  loss "), std::string::npos);
  EXPECT_NE(report.str().find("held-out loss: 5."), std::string::npos) << report.str();
  EXPECT_NE(report.str().find("the schedule, planned:\n"), std::string::npos);
  EXPECT_NE(report.str().find("a sample:\nThe "), std::string::npos);
  EXPECT_NE(report.str().find("trireme sample --model "), std::string::npos);
  for (const StepMetrics& step : outcome.steps) {
    EXPECT_GT(step.tokens_per_s, 0);
    EXPECT_GE(step.bubble, 0);
    EXPECT_LT(step.bubble, 1);
  }
}

TEST(TrainerRanks, OneRanksFailureIsEverybodys) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  EXPECT_ANY_THROW(
      run_job(config, 2, 1, {.should_stop = []() -> bool { throw Error("here"); }}));
  config.data.path = {"/no/such/file"};
  EXPECT_THROW(run_job(config, 2, 1), InvalidArgument);
}

TEST(TrainerRanks, AFolderThatNothingWasWrittenToGoesAgain) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.job.dump_folder = "";
  config.data.path = {"/no/such/file"};
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  EXPECT_THROW(run_job_there(config, 2, 1), InvalidArgument);
  EXPECT_TRUE(fs::is_empty("runs"));
  fs::current_path(before);
}

TEST(TrainerRanks, NoticesThatTheDataIsAnother) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.training.steps = 1;
  run_job(config, 1, 1);
  config.training.steps = 2;
  config.checkpoint.resume = "auto";
  std::ostringstream same;
  run_job(config, 1, 1, {.progress = &same});
  EXPECT_EQ(same.str().find("not what it was"), std::string::npos) << same.str();
  config.training.steps = 3;
  config.data.path = {folder.write("other.txt", std::string(4321, 'z')).string()};
  std::ostringstream other;
  run_job(config, 1, 1, {.progress = &other});
  EXPECT_NE(
      other.str().find("4,321 now; samples are not those that would have come"),
      std::string::npos)
      << other.str();
}

void expect_finite_weights(const fs::path& checkpoint) {
  const ckpt::WeightFiles weights = ckpt::Checkpoint(checkpoint).weights();
  for (const std::string& name : weights.names())
    EXPECT_TRUE(weights.read(name).isfinite().all().item<bool>()) << name;
}

TEST(TrainerRanks, AStepThatIsNotFiniteStopsTheJobAndTrainsNothing) {
  for (const auto& [pp, dp] : {std::pair{1, 1}, std::pair{2, 2}}) {
    SCOPED_TRACE(text(pp, " x ", dp));
    const testing::ScratchFolder folder;
    Config config = probe_config(folder);
    config.checkpoint = {.interval = 2, .keep_latest_k = 1};
    const std::string error = testing::message_of<InvalidArgument>(
        [&] { run_job(config, pp, dp, {.should_stop = spoil(pp * dp, 3, 99)}); });
    EXPECT_TRUE(testing::contains(error, "in step 4, got a loss of ")) << error;
    EXPECT_TRUE(testing::contains(error, "training.on_non_finite skip")) << error;
    const fs::path run = config.job.dump_folder;
    const auto latest = ckpt::latest_checkpoint(run / "checkpoint");
    ASSERT_TRUE(latest);
    EXPECT_EQ(latest->filename(), "step-3") << "what was trained is not lost";
    expect_finite_weights(*latest);
    EXPECT_TRUE(testing::contains(read(run / "metrics.jsonl"), R"("skipped":true)"));
    // The step was not done, and comes again.
    config.checkpoint.resume = "auto";
    probe_factor = 1;
    const JobOutcome again = run_job(config, pp, dp);
    ASSERT_EQ(again.steps.size(), 3U);
    EXPECT_EQ(again.steps[0].step, 4);
    EXPECT_TRUE(std::isfinite(again.steps[0].loss));
  }
}

TEST(TrainerRanks, AStepThatIsNotFiniteIsSkippedIfAsked) {
  for (const auto& [pp, dp] : {std::pair{1, 1}, std::pair{2, 2}}) {
    SCOPED_TRACE(text(pp, " x ", dp));
    const testing::ScratchFolder folder;
    Config config = probe_config(folder);
    config.training.on_non_finite = "skip";
    const JobOutcome outcome =
        run_job(config, pp, dp, {.should_stop = spoil(pp * dp, 2, 2)});
    ASSERT_EQ(outcome.steps.size(), 6U);
    for (const StepMetrics& step : outcome.steps)
      EXPECT_EQ(step.skipped, step.step == 3 || step.step == 4) << step.step;
    EXPECT_TRUE(std::isfinite(outcome.steps.back().loss));
    EXPECT_LT(outcome.steps.back().loss, outcome.steps.front().loss);
    expect_finite_weights(outcome.result.checkpoint);
  }
}

TEST(TrainerRanks, SkippingHasAnEnd) {
  const testing::ScratchFolder folder;
  Config config = probe_config(folder);
  config.training.on_non_finite = "skip";
  config.training.steps = 100;
  const std::string error = testing::message_of<InvalidArgument>(
      [&] { run_job(config, 1, 1, {.should_stop = spoil(1, 1, 1000)}); });
  EXPECT_TRUE(testing::contains(error, "in step 21, got")) << error;
  EXPECT_TRUE(testing::contains(error, "as in the 19 steps before")) << error;
}

TEST(TrainerRanks, WeightsThatAreNotFiniteTakeNoCheckpointsPlace) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.checkpoint = {.interval = 1, .keep_latest_k = 1};
  config.training.steps = 2;
  run_job(config, 2, 1);
  config.checkpoint.resume = "auto";
  config.training.steps = 4;
  config.optimizer.lr =
      1e39;  // the loss of step 3 is still finite, the weights are not
  const std::string error = testing::message_of<Error>([&] { run_job(config, 2, 1); });
  EXPECT_TRUE(testing::contains(error, "expected finite weights")) << error;
  const fs::path checkpoints = fs::path(config.job.dump_folder) / "checkpoint";
  EXPECT_EQ(ckpt::checkpoint_steps(checkpoints), std::vector<int64_t>{2});
  expect_finite_weights(checkpoints / "step-2");
}

TEST(TrainerRanks, GoingBackSetsLaterStepsAside) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.checkpoint = {.interval = 2, .keep_latest_k = 0};
  run_job(config, 1, 1);
  const fs::path run = config.job.dump_folder;
  const fs::path checkpoints = run / "checkpoint";
  EXPECT_EQ(ckpt::checkpoint_steps(checkpoints), (std::vector<int64_t>{2, 4, 6}));
  config.checkpoint.resume = (checkpoints / "step-2").string() + "/";
  config.training.steps = 3;
  std::ostringstream said;
  run_job(config, 1, 1, {.progress = &said});
  EXPECT_EQ(ckpt::checkpoint_steps(checkpoints), (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(fs::exists(checkpoints / "step-4.aside-1" / "checkpoint.json"));
  EXPECT_TRUE(fs::exists(checkpoints / "step-6.aside-1" / "checkpoint.json"));
  EXPECT_TRUE(testing::contains(said.str(), "step-6.aside-1"));
  const auto lines = [&](const char* name) {
    const std::string all = read(run / name);
    return std::count(all.begin(), all.end(), '\n');
  };
  EXPECT_EQ(lines("metrics.jsonl"), 3);
  EXPECT_EQ(lines("metrics.aside-1.jsonl"), 6);
  // What follows goes on from there, not from the stale step 6.
  config.checkpoint.resume = "auto";
  config.training.steps = 5;
  const JobOutcome on = run_job(config, 1, 1);
  ASSERT_EQ(on.steps.size(), 2U);
  EXPECT_EQ(on.steps[0].step, 4);
}

TEST(TrainerRanks, ACheckpointOfAnotherRunIsNotMixedIn) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.training.steps = 2;
  const JobOutcome one = run_job(config, 1, 1);
  config.job.dump_folder = (folder.path() / "other").string();
  run_job(config, 1, 1);
  config.checkpoint.resume = one.result.checkpoint;
  config.training.steps = 3;
  const std::string error =
      testing::message_of<InvalidArgument>([&] { run_job_there(config, 1, 1); });
  EXPECT_TRUE(testing::contains(error, "a folder without checkpoints")) << error;
  config.job.dump_folder = (folder.path() / "third").string();
  EXPECT_EQ(run_job_there(config, 1, 1).result.step, 3);
}

TEST(TrainerRanks, GoesOnWithTheNewestRunIfNoFolderIsNamed) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.job.dump_folder = "";
  config.training.steps = 2;
  config.checkpoint.resume = "auto";
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  EXPECT_EQ(run_job_there(config, 1, 1).result.step, 2) << "it begins";
  config.training.steps = 3;
  const JobOutcome on = run_job_there(config, 1, 1);
  EXPECT_EQ(on.steps.size(), 1U) << "it goes on";
  EXPECT_FALSE(fs::exists("runs/2"));
  config.model.dim = 64;
  const std::string error =
      testing::message_of<InvalidArgument>([&] { run_job_there(config, 1, 1); });
  EXPECT_TRUE(testing::contains(error, "runs/1")) << error;
  EXPECT_TRUE(testing::contains(error, "there model.dim is 32, here 64")) << error;
  fs::current_path(before);
}

TEST(TrainerRanks, SaysWhatBecomesOfTheLearningRate) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  std::ostringstream report;
  const JobOutcome first = run_job(config, 1, 1, {.report = &report});
  EXPECT_TRUE(testing::contains(
      report.str(), "--training.steps 12 --lr_scheduler.total_steps 6\n"));
  EXPECT_TRUE(testing::contains(
      report.str(), text("(the learning rate goes on at ", 0.1 * config.optimizer.lr)));
  config.checkpoint.resume = "auto";
  config.training.steps = 8;
  std::ostringstream raised;
  const JobOutcome stretched = run_job(config, 1, 1, {.progress = &raised});
  EXPECT_TRUE(testing::contains(raised.str(), "its schedule is now of 8 steps"));
  EXPECT_GT(stretched.steps[0].lr, first.steps.back().lr);
  config.training.steps = 10;
  config.lr_scheduler.total_steps = 8;
  std::ostringstream kept;
  const JobOutcome on = run_job(config, 1, 1, {.progress = &kept});
  EXPECT_EQ(kept.str().find("its schedule"), std::string::npos) << kept.str();
  EXPECT_NEAR(on.steps.back().lr, 0.1 * config.optimizer.lr, 1e-12);
}

TEST(TrainerRanks, AWarmUpThatHasNotEndedGoesOn) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.training.steps = 1;
  config.lr_scheduler.warmup_steps = 10;
  std::ostringstream report;
  run_job(config, 1, 1, {.report = &report});
  EXPECT_TRUE(testing::contains(report.str(), "--training.steps 2\n"));
  EXPECT_TRUE(testing::contains(
      report.str(), text("(the learning rate goes on at ", 0.2 * config.optimizer.lr)));
}

TEST(TrainerRanks, ClosingSampleDoesNotFailAFinishedJob) {
  const testing::ScratchFolder folder;
  for (const int64_t length : {1, 4}) {
    SCOPED_TRACE(length);
    Config config = tiny_config(folder);
    config.training.seq_len = length;
    config.training.steps = 1;
    std::ostringstream report;
    JobOutcome outcome;
    ASSERT_NO_THROW(outcome = run_job(config, 2, 1, {.report = &report}));
    EXPECT_EQ(outcome.result.step, 1);
    const char* expected = length == 1 ? "no sample: " : "a sample:\nThe";
    EXPECT_TRUE(testing::contains(report.str(), expected));
  }
}

TEST(TrainerRanks, WeightsAreDrawnOnceAndNotAtAllIfTheyAreLoaded) {
  const testing::ScratchFolder folder;
  Config config = probe_config(folder);
  config.training.steps = 1;
  config.parallelism.pipeline_parallel_schedule = "auto";
  run_job(config, 2, 1);
  EXPECT_EQ(probe_drawn, 2) << "the embedding and the head, for training alone";
  EXPECT_GE(probe_empty, 2) << "to measure";
  probe_drawn = 0;
  config.checkpoint.resume = "auto";
  config.training.steps = 2;
  EXPECT_EQ(run_job(config, 2, 1).steps.size(), 1U);
  EXPECT_EQ(probe_drawn, 0);
}

}  // namespace
}  // namespace trireme::train
