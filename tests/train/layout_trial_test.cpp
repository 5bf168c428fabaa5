#include "trireme/train/layout_trial.h"

#include <mutex>
#include <set>

#include <gtest/gtest.h>

#include "trireme/comm/init.h"
#include "trireme/train/model_source.h"

namespace trireme::train {
namespace {

TEST(LayoutTrialRanks, TimesEveryKindOfLayoutAlikeOnAllRanks) {
  Config config;
  config.model = {.dim = 16, .n_layers = 2, .n_heads = 2};
  config.training.seq_len = 8;
  config.training.global_batch_size = 8;
  const model::ModelPlan plan = describe_model(config, 256).plan;
  for (const Degrees& degrees :
       {Degrees{.pp = 1, .dp = 1},
        Degrees{.pp = 2, .dp = 1},
        Degrees{.pp = 1, .dp = 2},
        Degrees{.pp = 2, .dp = 2}}) {
    std::mutex mutex;
    std::set<double> times;
    comm::run_local(degrees.ranks(), [&](const comm::Group& world) {
      const double took = time_layout(world, config, plan, degrees);
      const std::lock_guard lock(mutex);
      times.insert(took);
    });
    EXPECT_EQ(times.size(), 1U);
    EXPECT_GT(*times.begin(), 0);
    EXPECT_LT(*times.begin(), 30);
  }
}

}  // namespace
}  // namespace trireme::train
