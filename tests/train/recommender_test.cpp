#include "trireme/train/recommender.h"

#include <atomic>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "trireme/ckpt/manifest.h"
#include "trireme/ckpt/safetensors.h"
#include "trireme/comm/init.h"
#include "trireme/core/error.h"
#include "trireme/net/memory_store.h"
#include "trireme/rpc/agent.h"
#include "trireme/testing/message.h"
#include "trireme/testing/scratch_folder.h"
#include "trireme/train/config_file.h"

namespace trireme::train {
namespace {

using testing::contains;
using testing::message_of;

Config tiny(const testing::ScratchFolder& folder, int trainers, int servers) {
  Config config;
  config.job.dump_folder = (folder.path() / "run").string();
  config.model = {.name = "recommender", .dim = 4, .vocab_size = 40};
  config.training.steps = 30;
  config.training.global_batch_size = 32;
  config.parallelism = {.ranks = trainers, .embedding_servers = servers};
  config.optimizer.lr = 2e-2;
  config.lr_scheduler.warmup_steps = 2;
  config.validation = {.freq = 10, .steps = 4};
  return config;
}

struct Outcome {
  std::vector<StepMetrics> steps;
  TrainResult result;
};

// On threads, which meet in memory.
Outcome run(const Config& config, int ranks, const TrainerOptions& options = {}) {
  Outcome outcome;
  const auto store = std::make_shared<net::MemoryStore>();
  comm::run_local(ranks, [&](const comm::Group& world) {
    TrainerOptions mine = options;
    if (world.rank() == 0)
      mine.on_step = [&](const StepMetrics& step) { outcome.steps.push_back(step); };
    const TrainResult result =
        train_recommender(world, config, mine, [&](rpc::AgentOptions& agent) {
          agent.store = store;
          agent.transport =
              rpc::NodeTransportOptions{.security = net::Security::insecure_loopback()};
        });
    if (world.rank() == 0)
      outcome.result = result;
    else
      EXPECT_EQ(
          result.stopped, config.job.dump_folder.find("stop") != std::string::npos);
  });
  return outcome;
}

Outcome run(int trainers, int servers, const std::function<void(Config&)>& edit = {}) {
  const testing::ScratchFolder folder;
  Config config = tiny(folder, trainers, servers);
  if (edit)
    edit(config);
  return run(config, trainers + servers);
}

void expect_same(const Outcome& one, const Outcome& other) {
  ASSERT_EQ(one.steps.size(), other.steps.size());
  for (size_t i = 0; i < one.steps.size(); ++i) {
    EXPECT_NEAR(one.steps[i].loss, other.steps[i].loss, 1e-5) << i;
    EXPECT_NEAR(one.steps[i].grad_norm, other.steps[i].grad_norm, 1e-4) << i;
    EXPECT_EQ(one.steps[i].lr, other.steps[i].lr);
  }
  EXPECT_NEAR(*one.result.held_out_after, *other.result.held_out_after, 1e-5);
}

// It learns, and the number of trainers and servers makes no difference.
TEST(RecommenderRanks, TheSameCurveEverywhere) {
  for (const char* optimizer : {"AdamW", "SGD"}) {
    const auto edit = [&](Config& config) {
      config.optimizer.name = optimizer;
      if (config.optimizer.name == "SGD")
        config.optimizer.lr = 1;
    };
    const Outcome one = run(1, 1, edit);
    EXPECT_EQ(one.result.step, 30);
    EXPECT_LT(*one.result.held_out_after, *one.result.held_out_before - 0.01);
    EXPECT_TRUE(one.steps[9].held_out_loss && !one.steps[8].held_out_loss);
    expect_same(run(1, 2, edit), one);
    expect_same(run(2, 1, edit), one);
    expect_same(run(4, 3, edit), one);
  }
}

// Every key that is not refused does something.
TEST(RecommenderRanks, KeysHaveTheirEffect) {
  const auto curve = [](const std::function<void(Config&)>& edit) {
    std::ostringstream out;
    out.precision(12);
    const Outcome outcome = run(1, 1, [&](Config& config) {
      config.training.steps = 6;
      edit(config);
    });
    for (const StepMetrics& step : outcome.steps)
      out << step.loss << " " << step.lr << " " << step.tokens << " "
          << step.held_out_loss.value_or(0) << "\n";
    return out.str();
  };
  const std::string before = curve([](Config&) {});
  EXPECT_EQ(curve([](Config&) {}), before);
  for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{
           {"model.dim", "8"},
           {"model.hidden_dim", "6"},
           {"model.vocab_size", "50"},
           {"training.steps", "7"},
           {"training.global_batch_size", "16"},
           {"training.seed", "2"},
           {"optimizer.lr", "0.01"},
           {"optimizer.beta1", "0.5"},
           {"optimizer.beta2", "0.5"},
           {"optimizer.eps", "0.01"},
           {"optimizer.weight_decay", "0.5"},
           {"lr_scheduler.warmup_steps", "4"},
           {"lr_scheduler.total_steps", "20"},
           {"validation.freq", "2"},
           {"validation.steps", "2"}})
    EXPECT_NE(curve([&](Config& config) { set_key(config, key, value); }), before)
        << key;
}

TEST(RecommenderRanks, LeavesItsFiles) {
  const testing::ScratchFolder folder;
  const Config config = tiny(folder, 2, 2);
  std::ostringstream progress, report;
  run(config, 4, {.progress = &progress, .report = &report});
  const std::filesystem::path run_folder = config.job.dump_folder;
  const ckpt::SafetensorsFile file(run_folder / "weights.safetensors");
  EXPECT_EQ(file.read("table").sizes(), (std::vector<int64_t>{40, 4}));
  EXPECT_EQ(file.read("hidden.weight").sizes(), (std::vector<int64_t>{4, 8}));
  EXPECT_TRUE(std::filesystem::exists(run_folder / "config.toml"));
  std::ifstream metrics(run_folder / "metrics.jsonl");
  int lines = 0;
  for (std::string line; std::getline(metrics, line); ++lines)
    EXPECT_TRUE(contains(line, "\"loss\"")) << line;
  EXPECT_EQ(lines, 30);
  EXPECT_TRUE(contains(progress.str(), "2 trainers, 16 clicks a step each; 2 servers"));
  EXPECT_TRUE(contains(progress.str(), " clicks/s"));
  EXPECT_TRUE(contains(progress.str(), "held-out loss before: 0."));
  EXPECT_TRUE(contains(report.str(), "weights.safetensors"));
}

TEST(RecommenderRanks, StopsAfterAStep) {
  const testing::ScratchFolder folder;
  Config config = tiny(folder, 2, 1);
  config.job.dump_folder = (folder.path() / "stop").string();
  std::atomic<int> asked{0};
  const Outcome outcome = run(config, 3, {.should_stop = [&] { return ++asked > 6; }});
  EXPECT_TRUE(outcome.result.stopped);
  EXPECT_LT(outcome.result.step, 6);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "stop" / "weights.safetensors"));
}

TEST(RecommenderRanks, ALossThatIsNotFinite) {
  const std::string complaint = message_of<Error>([&] {
    run(1, 1, [](Config& config) {
      config.optimizer.name = "SGD";
      config.optimizer.lr = 1e30;
    });
  });
  EXPECT_TRUE(contains(complaint, "expected a finite loss in step ")) << complaint;
}

TEST(RecommenderRanks, FoldersWithCheckpoints) {
  const testing::ScratchFolder folder;
  const Config config = tiny(folder, 1, 1);
  folder.write(text("run/checkpoint/step-3/", ckpt::kManifestName), "{}");
  const std::string complaint = message_of<Error>([&] { run(config, 2); });
  EXPECT_TRUE(contains(complaint, "folder without checkpoints")) << complaint;
}

TEST(Recommender, RanksOfAJob) {
  const testing::ScratchFolder folder;
  Config config = tiny(folder, 0, 0);
  config.training.global_batch_size = 10;
  const auto trainers = [&](int cores) {
    return recommender_ranks(config, cores).trainers;
  };
  EXPECT_EQ(trainers(1), 1);
  EXPECT_EQ(trainers(4), 2);  // 3 and 4 do not share 10 evenly
  EXPECT_EQ(trainers(64), 10);
  EXPECT_EQ(recommender_ranks(config, 1).servers, 1);
  EXPECT_EQ(share_ranks(config, 3).trainers, 2);
  EXPECT_THROW(share_ranks(config, 1), InvalidArgument);
  EXPECT_THROW(share_ranks(config, 4), InvalidArgument);  // 3 trainers
  config.parallelism = {.ranks = 5, .embedding_servers = 2};
  EXPECT_EQ(share_ranks(config, 7).all(), 7);
  const std::string complaint =
      message_of<InvalidArgument>([&] { share_ranks(config, 8); });
  EXPECT_TRUE(contains(complaint, "a world of 5 trainers")) << complaint;
}

}  // namespace
}  // namespace trireme::train
