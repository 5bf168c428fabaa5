#include "trireme/train/clicks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace trireme::train {
namespace {

TEST(Clicks, SamplesFollowFromTheirNumbers) {
  const Clicks clicks(3, 20, 30);
  const ClickBatch all = clicks.samples(100, 64);
  const ClickBatch part = Clicks(3, 20, 30).samples(116, 16);
  EXPECT_TRUE(at::equal(part.ids, all.ids.narrow(0, 16, 16)));
  EXPECT_TRUE(at::equal(part.clicked, all.clicked.narrow(0, 16, 16)));
  EXPECT_FALSE(at::equal(Clicks(4, 20, 30).samples(100, 64).ids, all.ids));
}

TEST(Clicks, UsersThenItems) {
  const ClickBatch batch = Clicks(1, 20, 30).samples(0, 5000);
  const at::Tensor users = batch.ids.select(1, 0), items = batch.ids.select(1, 1);
  EXPECT_EQ(users.min().item<int64_t>(), 0);
  EXPECT_EQ(users.max().item<int64_t>(), 19);
  EXPECT_EQ(items.min().item<int64_t>(), 20);
  EXPECT_EQ(items.max().item<int64_t>(), 49);
  // The first items are shown more often.
  EXPECT_GT((items < 27).sum().item<int64_t>(), 2000);
  EXPECT_TRUE((batch.clicked.eq(0) | batch.clicked.eq(1)).all().item<bool>());
}

// There is something to learn: clicks come as often as their chances say, which differ.
TEST(Clicks, ComeAsLikelyAsTheyAre) {
  const Clicks clicks(1, 20, 30);
  const ClickBatch batch = clicks.samples(0, 20000);
  double likely = 0, likely_clicked = 0, unlikely = 0, unlikely_clicked = 0;
  double expected = 0;
  for (int64_t i = 0; i < 20000; ++i) {
    const double chance = clicks.chance(
        batch.ids[i][0].item<int64_t>(), batch.ids[i][1].item<int64_t>() - 20);
    const double clicked = batch.clicked[i].item<double>();
    expected += chance;
    (chance > 0.8 ? likely : unlikely) += 1;
    (chance > 0.8 ? likely_clicked : unlikely_clicked) += clicked;
  }
  EXPECT_NEAR(expected / 20000, batch.clicked.mean().item<double>(), 0.015);
  EXPECT_GT(likely, 2000);
  EXPECT_GT(likely_clicked / likely, 0.8);
  EXPECT_LT(unlikely_clicked / unlikely, 0.5);
}

}  // namespace
}  // namespace trireme::train
