// `trireme train` and `trireme sample` as programs: signals, kill -9, exit codes.
#include <filesystem>
#include <random>

#include <gtest/gtest.h>

#include "train_case.h"
#include "trireme/ckpt/checkpoint.h"

namespace trireme::launch {
namespace {

namespace fs = std::filesystem;

class TrainRunProcs : public TrainCase {
 protected:
  /// The job on two ranks, which goes on where it was.
  Words train(const Words& more = {}) const {
    Words words{
        "--parallelism.ranks",
        "2",
        "--parallelism.pipeline_parallel_schedule",
        "1F1B",
        "--checkpoint.resume",
        "auto"};
    words.insert(words.end(), more.begin(), more.end());
    return TrainCase::train(words);
  }

  /// A job without end that shows and saves every step.
  Words train_on() const {
    return train(
        {"--training.steps",
         "1000000",
         "--metrics.log_freq",
         "1",
         "--checkpoint.interval",
         "1"});
  }

  int run(const Words& words) {
    Launched launched(words);
    const Ending ending = launched.finish();
    out_ = launched.out();
    err_ = launched.err();
    EXPECT_EQ(ending.signal, 0) << err_;
    return ending.exit_code;
  }

  /// Children of the keeper, which is the launcher's.
  std::vector<pid_t> ranks_of(const Launched& launched) const {
    const auto all = mark_.found();
    return find_processes([&](pid_t pid, const ProcessStat& stat) {
      return std::find(all.begin(), all.end(), pid) != all.end() &&
             pid != launched.pid() && stat.parent != launched.pid();
    });
  }

  void expect(const std::string& all, const std::string& part) const {
    EXPECT_NE(all.find(part), std::string::npos) << part << " in\n" << all;
  }

  std::string err_;
};

TEST_F(TrainRunProcs, StopsWithACheckpointAndGoesOn) {
  int64_t done = 0;
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) {
    Launched launched(
        train({"--training.steps", "1000000", "--metrics.log_freq", "1"}));
    ASSERT_TRUE(launched.complains("loss ")) << launched.err();
    launched.kill(signal);
    EXPECT_EQ(launched.finish(), Ending{.exit_code = 75}) << launched.err();
    expect(launched.out(), text("go on with: ", TRIREME_PROGRAM, " train "));
    const ckpt::Checkpoint checkpoint(*ckpt::latest_checkpoint(run_ / "checkpoint"));
    EXPECT_GT(checkpoint.step(), done);
    done = checkpoint.step();
  }
  EXPECT_EQ(run(train({"--training.steps", std::to_string(done + 2)})), 0) << err_;
  expect(err_, text("going on after step ", done));
  expect(out_, "a sample:");
}

TEST_F(TrainRunProcs, CanGoOnIfToldToStopWhileItStarts) {
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) {
    Launched launched(train({"--training.steps", "1000000"}));
    // The launcher, its keeper, and two ranks that have just begun.
    ASSERT_TRUE(within(kLong, [this] { return mark_.found().size() >= 4; }));
    launched.kill(signal);
    EXPECT_EQ(launched.finish(20s), Ending{.exit_code = 75}) << launched.err();
  }
  EXPECT_EQ(run(train({"--training.steps", "2"})), 0) << err_;
}

/// The others must not wait for it, as they would for one that is only late.
TEST_F(TrainRunProcs, EndsAtOnceWhenARankIsKilledWhileItStarts) {
  Launched launched(train({"--training.steps", "1000000"}));
  ASSERT_TRUE(within(kLong, [&] { return ranks_of(launched).size() == 2; }));
  ::kill(ranks_of(launched).at(0), SIGKILL);
  const Ending ending = launched.finish(20s);
  EXPECT_NE(ending.exit_code, 0);
  EXPECT_NE(ending.exit_code, 75);
}

TEST_F(TrainRunProcs, EndsWithACheckpointWhenAStepIsNotFinite) {
  // Finite weights of 1e28, which no step can be taken from.
  EXPECT_EQ(run(train({"--training.steps", "20", "--optimizer.lr", "1e30"})), 1);
  expect(err_, "expected a finite loss and finite gradients in step 2");
  const auto latest = ckpt::latest_checkpoint(run_ / "checkpoint");
  ASSERT_TRUE(latest);
  EXPECT_EQ(latest->filename(), "step-1");
}

TEST_F(TrainRunProcs, EndsWithAReasonWhenOneRankIsKilledAndGoesOn) {
  Launched launched(train_on());
  ASSERT_TRUE(launched.complains("loss ", 3)) << launched.err();
  const std::vector<pid_t> ranks = ranks_of(launched);
  ASSERT_EQ(ranks.size(), 2U);
  ::kill(ranks[1], SIGKILL);
  const Ending ending = launched.finish(20s);
  EXPECT_NE(ending.exit_code, 0);
  EXPECT_NE(ending.exit_code, 75) << "what was killed was not asked to stop";
  expect(launched.err(), "SIGKILL");
  expect(launched.err(), "ended without leaving");
  expect(launched.err(), "give the same command with --checkpoint.resume auto");
  expect(launched.err(), "it wrote nothing to stderr, but rank ");
  EXPECT_TRUE(mark_.gone_within(10s));
  const auto latest = ckpt::latest_checkpoint(run_ / "checkpoint");
  ASSERT_TRUE(latest);
  const ckpt::Checkpoint checkpoint(*latest);
  EXPECT_GE(checkpoint.step(), 1);
  EXPECT_EQ(run(train({"--training.steps", std::to_string(checkpoint.step() + 2)})), 0)
      << err_;
  expect(err_, text("going on after step ", checkpoint.step()));
}

TEST_F(TrainRunProcs, KillsAtAnyMomentLeaveTheCheckpointBefore) {
  std::mt19937 random(std::random_device{}());
  int64_t done = 0;
  for (int round = 0; round < 20; ++round) {
    Launched launched(train_on());
    ASSERT_TRUE(launched.complains("loss ")) << launched.err();
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 100));
    launched.kill(SIGKILL);
    launched.finish();
    ASSERT_TRUE(mark_.gone_within(10s));
    const auto latest = ckpt::latest_checkpoint(run_ / "checkpoint");
    if (!latest) {
      EXPECT_EQ(done, 0);  // the very first one was killed
      continue;
    }
    const ckpt::Checkpoint checkpoint(*latest);
    EXPECT_GE(checkpoint.step(), done);
    done = checkpoint.step();
    for (const std::string& name : checkpoint.weights().names())
      EXPECT_GT(checkpoint.weights().read(name).numel(), 0);
  }
  EXPECT_GT(done, 0);
  EXPECT_EQ(run(train({"--training.steps", std::to_string(done + 1)})), 0) << err_;
}

TEST_F(TrainRunProcs, AFolderIsForOneJobAtATime) {
  Words on = train_on();
  on.insert(on.end(), {"--checkpoint.keep_latest_k", "0"});
  Launched first(on);
  ASSERT_TRUE(first.complains("loss ", 3)) << first.err();
  const std::vector<pid_t> ranks = ranks_of(first);
  ASSERT_EQ(ranks.size(), 2U);
  // With ranks of its own, and as ranks that another launcher has started.
  const Words again = train({"--training.steps", "1"});
  Words launched{TRIREME_PROGRAM, "run", "-n", "2", "--"};
  launched.insert(launched.end(), again.begin(), again.end());
  for (const Words& words : {again, launched}) {
    EXPECT_EQ(run(words), words == again ? 2 : 1);
    expect(err_, run_.string());
    EXPECT_TRUE(
        err_.find(text("process ", ranks[0], " ")) != std::string::npos ||
        err_.find(text("process ", ranks[1], " ")) != std::string::npos)
        << err_;
    expect(err_, "set job.dump_folder to another");
    EXPECT_EQ(err_.find("to go on from the last checkpoint"), std::string::npos)
        << err_;
  }
  EXPECT_EQ(run(train({"--training.steps", "1", "--dry-run"})), 0) << err_;
  const auto latest = ckpt::latest_checkpoint(run_ / "checkpoint");
  ASSERT_TRUE(latest);
  ASSERT_EQ(
      run(
          {TRIREME_PROGRAM,
           "sample",
           "--model",
           latest->string(),
           "--prompt",
           "xxx",
           "--max-new-tokens",
           "1"}),
      0)
      << err_;
  first.kill(SIGKILL);
  first.finish();
  ASSERT_TRUE(mark_.gone_within(10s));
  const int64_t done =
      ckpt::Checkpoint(*ckpt::latest_checkpoint(run_ / "checkpoint")).step();
  EXPECT_EQ(run(train({"--training.steps", std::to_string(done + 1)})), 0) << err_;
}

TEST_F(TrainRunProcs, AnotherModelIsFoundBeforeRanksStart) {
  ASSERT_EQ(run(train({"--training.steps", "2"})), 0) << err_;
  EXPECT_EQ(run(train({"--training.steps", "3", "--model.n_heads", "4"})), 2);
  expect(err_, "the command line: expected model.n_heads 4 in the checkpoint ");
  EXPECT_EQ(run(train({"--training.steps", "3", "--optimizer.name", "SGD"})), 2);
  expect(err_, "optimizer.name SGD");
}

TEST_F(TrainRunProcs, SamplesFromItsCheckpoints) {
  ASSERT_EQ(run(train({"--training.steps", "2"})), 0) << err_;
  const Words sample{
      TRIREME_PROGRAM,
      "sample",
      "--model",
      (run_ / "checkpoint/step-2").string(),
      "--prompt",
      "xxx",
      "--max-new-tokens",
      "4",
      "--format",
      "json"};
  ASSERT_EQ(run(sample), 0) << err_;
  const std::string one = out_;
  expect(one, R"({"ids":[120,120,120,)");
  expect(one, R"("logprobs":[-)");
  Words two = sample;
  two.insert(two.end(), {"--ranks", "2"});
  ASSERT_EQ(run(two), 0) << err_;
  EXPECT_EQ(out_, one);
}

TEST_F(TrainRunProcs, WrongWordsAreFoundBeforeRanksStart) {
  EXPECT_EQ(run(train({"--training.step", "2"})), 2);
  expect(err_, "did you mean training.steps?");
  EXPECT_EQ(run(train({"--model.n_heads", "3"})), 2);
  expect(err_, "[train] the command line: expected model.dim to be a multiple of");
  const std::string job =
      folder_.write("job.toml", "[data]\n\ntokenizer = \"none.json\"\n").string();
  EXPECT_EQ(run({TRIREME_PROGRAM, "train", job}), 2);
  expect(err_, text("[train] ", job, ":3: data.tokenizer: "));
  EXPECT_EQ(
      run(train(
          {"--parallelism.pipeline_parallel_schedule",
           "Interleaved1F1B",
           "--parallelism.pipeline_parallel_stages_per_rank",
           "9"})),
      2);
  expect(err_, "the command line: parallelism.pipeline_parallel_schedule: expected ");
  EXPECT_EQ(run({TRIREME_PROGRAM, "train", "/no/such.toml"}), 2);
  EXPECT_EQ(run({TRIREME_PROGRAM, "sample", "--model", "/no/such"}), 2);
  expect(err_, "without config.json");
  EXPECT_FALSE(fs::exists(run_));
}

TEST_F(TrainRunProcs, PrintsAndChecksWithoutRunning) {
  ASSERT_EQ(run(train({"--print-config"})), 0);
  expect(out_, "[training]\n");
  const std::string file = folder_.write("job.toml", out_).string();
  ASSERT_EQ(run({TRIREME_PROGRAM, "train", file, "--print-config"}), 0) << err_;
  expect(out_, "seq_len = 8 ");
  ASSERT_EQ(
      run(
          {TRIREME_PROGRAM,
           "train",
           "--dry-run",
           "--parallelism.ranks",
           "4096",
           "--training.global_batch_size",
           "16384"}),
      0)
      << err_;
  expect(out_, "4096 ranks: 4096 pipelines of 1");
  EXPECT_FALSE(fs::exists(run_));
}

}  // namespace
}  // namespace trireme::launch
