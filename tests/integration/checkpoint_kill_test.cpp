// kill -9 at random moments of a run that does nothing but save: the checkpoint before
// stays loadable, and the next run clears what was left.
#include <iostream>
#include <random>
#include <set>
#include <signal.h>
#include <thread>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "trireme/ckpt/checkpoint.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/core/deadline.h"
#include "trireme/core/error.h"
#include "trireme/testing/scratch_folder.h"
#include "trireme/testing/world.h"

namespace trireme::ckpt {
namespace {

namespace fs = std::filesystem;

constexpr int kRanks = 2, kKills = 20, kMostSaves = 10'000;
constexpr int64_t kSize = 50'000;

// Each rank brings one stage, full of the step.
CheckpointContent content_of(int rank, int64_t step) {
  const auto value = static_cast<double>(step);
  CheckpointContent content{.stages = kRanks, .texts = {{"trainer.json", text(step)}}};
  content.parts.push_back(
      {.stage = rank,
       .weights =
           {{text("weight.", rank), at::full({kSize}, value, at::kDouble)},
            {"tied", at::full({10}, value, at::kDouble)}},
       .optimizer = {{text("state.", rank), at::full({kSize}, value, at::kDouble)}}});
  return content;
}

void expect_whole(const Checkpoint& checkpoint) {
  const auto value = static_cast<double>(checkpoint.step());
  for (const WeightFiles& files : {checkpoint.weights(), checkpoint.optimizer()})
    for (const std::string& name : files.names())
      EXPECT_TRUE(files.read(name).eq(value).all().item<bool>()) << name;
  EXPECT_EQ(checkpoint.weights().names().size(), size_t{kRanks} + 1);
  EXPECT_EQ(checkpoint.text("trainer.json"), text(checkpoint.step()));
}

// Saves one step after the other; every third one twice, which replaces it.
int save_until_death(
    const comm::Group& world, const fs::path& root, const fs::path& ready) {
  const int64_t start = Checkpoint(*latest_checkpoint(root)).step();
  comm::barrier(world);
  if (world.rank() == 0)
    write_durably(ready, "");
  try {
    for (int64_t i = 1; i <= kMostSaves; ++i) {
      const int64_t step = start + i;
      for (int times = step % 3 == 0 ? 2 : 1; times > 0; --times)
        save_checkpoint(world, root, step, content_of(world.rank(), step), {.keep = 2});
    }
  } catch (const PeerError&) {
    return testing::kNoticed;
  }
  return 1;
}

void wait_for(const fs::path& file) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  while (!fs::exists(file) && !deadline.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void save_first(const fs::path& root, int64_t step) {
  comm::run_local(kRanks, [&](const comm::Group& world) {
    save_checkpoint(world, root, step, content_of(world.rank(), step), {.keep = 2});
  });
}

bool has_leftovers(const fs::path& root) {
  for (const auto& entry : fs::directory_iterator(root))
    if (entry.path().filename().string().starts_with('.'))
      return true;
  return false;
}

TEST(CheckpointKillProcs, TheCheckpointBeforeStaysLoadable) {
  const testing::ScratchFolder scratch;
  const fs::path root = scratch.path() / "run";
  save_first(root, 1);
  int left = 0;
  for (int round = 0; round < kKills; ++round) {
    std::mt19937 random(static_cast<unsigned>(500 + round));  // fixed seeds
    const int victim = static_cast<int>(random() % kRanks);
    const auto delay = std::chrono::microseconds(random() % 150'000);
    const int64_t before = Checkpoint(*latest_checkpoint(root)).step();
    const fs::path ready = scratch.path() / text("ready-", round);
    testing::Processes processes;
    processes.start_ranks(
        testing::fresh_job_name(), kRanks, [&](const comm::Group& world) {
          return save_until_death(world, root, ready);
        });
    wait_for(ready);
    std::this_thread::sleep_for(delay);
    processes.kill(static_cast<size_t>(victim), SIGKILL);
    testing::expect_noticed(processes.wait(std::chrono::seconds(20)), victim);
    left += has_leftovers(root);
    const std::vector<int64_t> steps = checkpoint_steps(root);
    ASSERT_FALSE(steps.empty());
    EXPECT_GE(steps.back(), before);
    for (const int64_t step : steps)
      expect_whole(Checkpoint(root / step_name(step)));
    std::cout << "round " << round << ": rank " << victim << " killed, steps " << before
              << " to " << steps.back() << '\n';
  }
  EXPECT_GT(left, 0) << "no kill fell into a save";
  const int64_t last = checkpoint_steps(root).back() + 1;
  save_first(root, last);
  EXPECT_FALSE(has_leftovers(root));
  EXPECT_EQ(latest_checkpoint(root), root / step_name(last));
  EXPECT_EQ(checkpoint_steps(root).size(), 2U);
}

}  // namespace
}  // namespace trireme::ckpt
