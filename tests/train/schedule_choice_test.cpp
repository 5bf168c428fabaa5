// That choosing trains nothing and gives the same curve is in trainer_test.cpp.
#include "trireme/train/schedule_choice.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tiny_job.h"
#include "trireme/comm/mesh.h"
#include "trireme/core/error.h"
#include "trireme/train/estimate.h"
#include "trireme/train/model_source.h"

namespace trireme::train {
namespace {

TEST(ScheduleChoice, SpreadsWhatAStageCostOverItsLayers) {
  std::vector<sched::LayerCosts> guess(4);
  guess[0].costs = {1, 1, 1, 2, 10, 0};
  guess[1].costs = {3, 3, 3, 6, 30, 0};
  guess[2].costs = guess[3].costs = {2, 2, 2, 4, 5, 7};
  const Layout layout = make_layout({.pp = 2}, {.microbatches = 2}, guess, "1F1B");
  ASSERT_EQ(layout.layers[0], (sched::LayerRange{0, 2}));
  const auto spread =
      spread_costs(layout, guess, {{8, 8, 8, 12, 400, 0}, {6, 4, 2, 6, 100, 0}});
  EXPECT_DOUBLE_EQ(spread[0].costs.forward, 2);
  EXPECT_DOUBLE_EQ(spread[1].costs.forward, 6);
  EXPECT_DOUBLE_EQ(spread[1].costs.backward, 9);
  EXPECT_DOUBLE_EQ(spread[1].costs.activation_bytes, 300);
  EXPECT_DOUBLE_EQ(spread[3].costs.input_grad, 2);
  EXPECT_DOUBLE_EQ(spread[3].costs.weight_bytes, 7);
}

TEST(ScheduleChoice, ReadsASchedulesFile) {
  const testing::ScratchFolder folder;
  Config config;
  config.parallelism.pipeline_parallel_schedule_csv =
      folder.write("s.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n").string();
  std::vector<sched::LayerCosts> layers(3);
  const Layout layout = first_layout(config, {.pp = 2}, {.microbatches = 2}, layers);
  EXPECT_EQ(layout.stages(), 2);
  EXPECT_FALSE(is_measured(config));
  config.parallelism.pipeline_parallel_schedule_csv = "/no/such.csv";
  EXPECT_THROW(
      first_layout(config, {.pp = 2}, {.microbatches = 2}, layers), InvalidArgument);
}

TEST(ScheduleChoiceRanks, AllRanksChooseTheSame) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.parallelism.pipeline_parallel_schedule = "auto";
  EXPECT_TRUE(is_measured(config));
  std::vector<std::vector<int>> owners(4);
  std::vector<std::string> why(4);
  comm::run_local(4, [&](const comm::Group& world) {
    const comm::Mesh mesh(world, {{"dp", 2}, {"pp", 2}});
    const Degrees degrees{.pp = 2, .dp = 2};
    const auto plan = describe_model(config, 256).plan;
    const BatchShape batch = choose_batch(config, degrees);
    const auto costs = estimate_layers(plan, config, batch);
    const Layout first = first_layout(config, degrees, batch, costs);
    const at::Tensor ids = at::arange(64, at::kLong).view({4, 16});
    const ScheduleChoice choice = choose_schedule(
        mesh,
        plan,
        config,
        first,
        {.inputs = ids, .targets = ids, .first_sample = 4 * mesh.coordinate("dp")});
    const auto rank = static_cast<size_t>(world.rank());
    owners[rank] = choice.layout.schedule.rank_of_stage;
    why[rank] = choice.why;
  });
  for (size_t rank = 1; rank < 4; ++rank)
    EXPECT_EQ(owners[rank], owners[0]);
  EXPECT_NE(why[0].find(" a pass"), std::string::npos) << why[0];
}

}  // namespace
}  // namespace trireme::train
