// `trireme train --model.name recommender` as a program.
#include <algorithm>
#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "train_case.h"

namespace trireme::launch {
namespace {

class RecommenderRunProcs : public TrainCase {
 protected:
  Words train(int trainers, int servers, const Words& more = {}) const {
    Words words{
        TRIREME_PROGRAM,
        "train",
        "--model.name",
        "recommender",
        "--job.dump_folder",
        run_.string(),
        "--parallelism.ranks",
        std::to_string(trainers),
        "--parallelism.embedding_servers",
        std::to_string(servers),
        "--model.dim",
        "8",
        "--optimizer.lr",
        "0.02",
        "--training.global_batch_size",
        "64",
        "--metrics.log_freq",
        "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  int run(const Words& words) {
    std::filesystem::remove_all(run_);
    Launched launched(words);
    const Ending ending = launched.finish();
    out_ = launched.out();
    err_ = launched.err();
    return ending.shell_code();
  }

  /// Of the steps of a run, and of its evaluations.
  std::vector<double> values(const char* key) const {
    std::vector<double> found;
    std::ifstream file(run_ / "metrics.jsonl");
    for (std::string line; std::getline(file, line);)
      if (const auto step = nlohmann::json::parse(line); step.contains(key))
        found.push_back(step.at(key).get<double>());
    return found;
  }

  void expect(const std::string& all, const std::string& part) const {
    EXPECT_NE(all.find(part), std::string::npos) << part << " in\n" << all;
  }

  std::string err_;
};

// The losses fall, and do not depend on how many servers and trainers there are.
TEST_F(RecommenderRunProcs, LearnsTheSameWithAnyServers) {
  const Words more{"--training.steps", "60", "--validation.freq", "20"};
  ASSERT_EQ(run(train(1, 1, more)), 0) << err_;
  const auto losses = values("loss"), held_out = values("held_out_loss");
  ASSERT_EQ(losses.size(), 60U);
  ASSERT_EQ(held_out.size(), 3U);
  EXPECT_LT(held_out.back(), 0.66);  // 0.69 knows nothing
  expect(err_, "1 trainers, 64 clicks a step each; 1 server of the table");
  expect(err_, "step 60/60  loss ");
  expect(err_, " clicks/s");
  expect(out_, "held-out loss: 0.69");
  for (const auto& [trainers, servers] : {std::pair(1, 2), std::pair(2, 2)}) {
    ASSERT_EQ(run(train(trainers, servers, more)), 0) << err_;
    const auto others = values("loss");
    ASSERT_EQ(others.size(), losses.size());
    for (size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(others[i], losses[i], 1e-4) << i;
    EXPECT_NEAR(values("held_out_loss").back(), held_out.back(), 1e-4);
  }
  EXPECT_TRUE(std::filesystem::exists(run_ / "weights.safetensors"));
}

TEST_F(RecommenderRunProcs, StopsAfterAStep) {
  Launched launched(train(2, 1, {"--training.steps", "1000000"}));
  ASSERT_TRUE(launched.complains("loss 0", 3)) << launched.err();
  launched.kill(SIGTERM);
  EXPECT_EQ(launched.finish(), Ending{.exit_code = 75}) << launched.err();
  expect(launched.out(), "stopped after step ");
  EXPECT_TRUE(std::filesystem::exists(run_ / "weights.safetensors"));
}

// Whoever is killed ends the job, and the message says so.
TEST_F(RecommenderRunProcs, EndsWhenOneRankIsKilled) {
  for (const size_t victim : {size_t{0}, size_t{2}}) {
    std::filesystem::remove_all(run_);
    Launched launched(train(2, 1, {"--training.steps", "1000000"}));
    ASSERT_TRUE(launched.complains("loss 0", 3)) << launched.err();
    auto ranks = find_processes([&](pid_t pid, const ProcessStat& stat) {
      const auto all = mark_.found();
      return std::find(all.begin(), all.end(), pid) != all.end() &&
             pid != launched.pid() && stat.parent != launched.pid();
    });
    std::sort(ranks.begin(), ranks.end());
    ASSERT_EQ(ranks.size(), 3U);
    ::kill(ranks[victim], SIGKILL);
    const Ending ending = launched.finish(20s);
    EXPECT_EQ(ending.exit_code, 128 + SIGKILL) << launched.err();
    expect(launched.err(), "was ended by SIGKILL");
  }
}

TEST_F(RecommenderRunProcs, RefusesWhatItWouldIgnore) {
  EXPECT_EQ(run(train(2, 1, {"--checkpoint.resume", "auto"})), 2);
  expect(err_, "the command line: expected no checkpoint.resume beside model.name");
  EXPECT_EQ(run(train(3, 1)), 2);
  expect(err_, "a multiple of parallelism.ranks, the trainers, got 64 and 3");
  EXPECT_FALSE(std::filesystem::exists(run_));
}

TEST_F(RecommenderRunProcs, DryRun) {
  EXPECT_EQ(run(train(4, 2, {"--dry-run"})), 0) << err_;
  expect(out_, "model: recommender, ");
  expect(out_, "ranks: 6 (4 trainers, 16 clicks a step each; 2 servers of the table)");
  EXPECT_FALSE(std::filesystem::exists(run_));
}

}  // namespace
}  // namespace trireme::launch
