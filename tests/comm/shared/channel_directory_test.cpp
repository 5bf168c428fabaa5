#include "trireme/comm/shared/channel_directory.h"

#include <gtest/gtest.h>

#include "trireme/comm/shared/shared_engine.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

using Entry = ChannelDirectory::Entry;

/// One rank that publishes, and looks at its own list.
class DirectoryTest : public ::testing::Test {
 protected:
  std::shared_ptr<HeapMemory> memory_ = std::make_shared<HeapMemory>();
  World world_{WorldSetup{
      .rank = 0, .size = 1, .memory = memory_, .control = make_world(*memory_, 1)}};
  ChannelDirectory directory_{world_};
};

TEST_F(DirectoryTest, FindsWhatWasPublished) {
  const ChannelKey key{.group = 5, .from = 0, .to = 3, .tag = 9};
  EXPECT_EQ(directory_.find(0, key), nullptr);
  const uint32_t before = directory_.changes(0).value.load();
  directory_.publish(key, 4096);
  EXPECT_TRUE(directory_.changes(0).reached(before + 1));
  ASSERT_NE(directory_.find(0, key), nullptr);
  EXPECT_EQ(directory_.find(0, key)->ring.load(), 4096U);
  EXPECT_EQ(directory_.find(0, {.group = 5, .from = 0, .to = 3, .tag = 8}), nullptr);
  EXPECT_EQ(directory_.find(0, {.group = 4, .from = 0, .to = 3, .tag = 9}), nullptr);
}

TEST_F(DirectoryTest, HoldsMoreThanAPage) {
  for (int tag = 0; tag < 200; ++tag)
    directory_.publish({.tag = tag}, static_cast<uint64_t>(tag) + 1);
  for (int tag = 0; tag < 200; ++tag) {
    ASSERT_NE(directory_.find(0, {.tag = tag}), nullptr);
    EXPECT_EQ(
        directory_.find(0, {.tag = tag})->ring.load(), static_cast<uint64_t>(tag) + 1);
  }
}

TEST_F(DirectoryTest, RefusesASecondRingUntilTheFirstIsGone) {
  Entry& entry = directory_.publish({}, 1);
  EXPECT_THROW(directory_.publish({}, 2), InvalidArgument);
  ChannelDirectory::leave_as_sender(entry, [] { return true; });
  EXPECT_THROW(directory_.publish({}, 2), InvalidArgument);
  EXPECT_TRUE(ChannelDirectory::remove_ring(entry));
  EXPECT_EQ(&directory_.publish({}, 2), &entry);
}

TEST_F(DirectoryTest, LetsOneReceiverInAtATime) {
  Entry& entry = directory_.publish({}, 1);
  EXPECT_TRUE(ChannelDirectory::connect(entry));
  EXPECT_THROW(ChannelDirectory::connect(entry), InvalidArgument);
  EXPECT_FALSE(ChannelDirectory::remove_ring(entry));
  ChannelDirectory::leave_as_receiver(entry, [] { return false; });
  EXPECT_TRUE(ChannelDirectory::connect(entry));
}

TEST_F(DirectoryTest, LetsNobodyIntoADrainedRing) {
  Entry& entry = directory_.publish({}, 1);
  ChannelDirectory::leave_as_sender(entry, [] { return false; });
  EXPECT_TRUE(ChannelDirectory::connect(entry));  // there are messages left
  ChannelDirectory::leave_as_receiver(entry, [] { return true; });
  EXPECT_FALSE(ChannelDirectory::connect(entry));
  EXPECT_TRUE(ChannelDirectory::remove_ring(entry));
  EXPECT_FALSE(ChannelDirectory::connect(entry));
}

TEST_F(DirectoryTest, KeepsARingThatIsEmptyWhileItsSenderLives) {
  Entry& entry = directory_.publish({}, 1);
  EXPECT_TRUE(ChannelDirectory::connect(entry));
  ChannelDirectory::leave_as_receiver(entry, [] { return true; });
  EXPECT_TRUE(ChannelDirectory::connect(entry));
}

}  // namespace
}  // namespace trireme::comm
