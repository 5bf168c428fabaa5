// Trials on forks are in tests/integration/train_terminal_test.cpp: a test with threads
// cannot fork them.
#include "trireme/cli/layout_trials.h"

#include <mutex>
#include <set>

#include <gtest/gtest.h>

#include "trireme/comm/init.h"
#include "trireme/train/model_source.h"

namespace trireme::cli {
namespace {

TEST(LayoutTrialsRanks, RanksThatAreThereChooseTheSame) {
  TrainPlan plan;
  plan.config.model = {.dim = 16, .n_layers = 2, .n_heads = 2};
  plan.config.training.seq_len = 8;
  plan.config.training.global_batch_size = 8;
  plan.model = train::describe_model(plan.config, 256).plan;
  plan.layouts = train::list_layouts(
      plan.config, plan.model, {.ranks = 2, .cores = 2, .threads = 1});
  ASSERT_EQ(plan.layouts.size(), 2U);
  std::mutex mutex;
  std::set<std::string> reasons;
  comm::run_local(2, [&](const comm::Group& world) {
    const train::LayoutChoice choice = try_layouts(plan, world);
    const std::lock_guard lock(mutex);
    reasons.insert(choice.why);
    EXPECT_EQ(choice.layout.degrees.ranks(), 2);
  });
  ASSERT_EQ(reasons.size(), 1U);
  EXPECT_NE(reasons.begin()->find("the best of 2 tried"), std::string::npos)
      << *reasons.begin();
}

}  // namespace
}  // namespace trireme::cli
