#include "trireme/data/windows.h"

#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::data {
namespace {

TEST(Windows, EachHasATargetForItsLastToken) {
  EXPECT_EQ(count_windows(9, 4), 2);
  EXPECT_EQ(count_windows(8, 4), 1);
  EXPECT_EQ(count_windows(5, 4), 1);
  EXPECT_EQ(count_windows(4, 4), 0);
  EXPECT_EQ(count_windows(1, 4), 0);
  EXPECT_EQ(count_windows(0, 4), 0);
  EXPECT_EQ(count_windows(10, 1), 9);
  EXPECT_THROW(count_windows(10, 0), InvalidArgument);
}

std::vector<int64_t> epoch(SampleOrder& order, int64_t number, int64_t windows) {
  std::vector<int64_t> items;
  for (int64_t i = 0; i < windows; ++i)
    items.push_back(order.window(number * windows + i));
  return items;
}

TEST(SampleOrder, GivesAllWindowsOnceAnEpoch) {
  SampleOrder order({.windows = 37, .seed = 5});
  std::set<std::vector<int64_t>> orders;
  for (int64_t number = 0; number < 20; ++number) {
    const std::vector<int64_t> items = epoch(order, number, 37);
    EXPECT_EQ(std::set(items.begin(), items.end()).size(), 37U);
    EXPECT_EQ(*std::max_element(items.begin(), items.end()), 36);
    orders.insert(items);
  }
  EXPECT_EQ(orders.size(), 20U);
}

TEST(SampleOrder, IsTheSameFromAnyPlace) {
  const SampleOrderOptions options{.windows = 37, .seed = 5};
  SampleOrder forwards(options);
  std::vector<int64_t> all;
  for (int64_t sample = 0; sample < 200; ++sample)
    all.push_back(forwards.window(sample));
  SampleOrder backwards(options);
  for (int64_t sample = 199; sample >= 0; --sample)
    EXPECT_EQ(backwards.window(sample), all[static_cast<size_t>(sample)]);
}

TEST(SampleOrder, KeepsTheFilesOrderWhenAsked) {
  SampleOrder order({.windows = 5, .shuffle = false});
  for (int64_t sample = 0; sample < 20; ++sample)
    EXPECT_EQ(order.window(sample), sample % 5);
}

TEST(SampleOrder, RefusesNoWindows) {
  EXPECT_THROW(SampleOrder({.windows = 0}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::data
