#include "trireme/rpc/reference.h"

#include <gtest/gtest.h>

namespace trireme::rpc {
namespace {

TEST(Reference, ObjectsAreNamedByTheirCreator) {
  EXPECT_EQ(to_string(ObjectId{.creator = 3, .number = 17}), "3.17");
}

TEST(Reference, TheFirstReasonOfALossStays) {
  Loss loss;
  EXPECT_FALSE(loss.happened());
  loss.set("first");
  loss.set("second");
  EXPECT_TRUE(loss.happened());
  EXPECT_EQ(loss.why(), "first");
}

TEST(Reference, TheLastHandleIsHeardOfOnce) {
  int wakes = 0;
  auto releases = std::make_shared<Releases>([&] { ++wakes; });
  {
    Reference one(std::make_shared<Hold>(
        Hold::Facts{
            .id = {1, 2},
            .owner = 1,
            .fork = 4,
            .cargo = nullptr,
            .loss = std::make_shared<Loss>()},
        releases));
    Reference two = one;
    one = {};
    EXPECT_EQ(wakes, 0);
  }
  EXPECT_EQ(wakes, 1);
  releases->add({.id = {1, 3}, .fork = 0});
  EXPECT_EQ(wakes, 1) << "somebody was woken already";
  const auto taken = releases->take();
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].id, (ObjectId{1, 2}));
  EXPECT_EQ(taken[0].fork, 4u);
  EXPECT_TRUE(releases->take().empty());
}

TEST(Reference, AClosedQueueTakesNothing) {
  int wakes = 0;
  Releases releases([&] { ++wakes; });
  releases.close();
  releases.add({.id = {1, 2}, .fork = 0});
  EXPECT_EQ(wakes, 0);
  EXPECT_TRUE(releases.take().empty());
}

}  // namespace
}  // namespace trireme::rpc
