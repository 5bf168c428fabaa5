#include "trireme/net/watch_gate.h"

#include <gtest/gtest.h>

namespace trireme::net {
namespace {

using Send = WatchGate::Send;

TEST(WatchGate, LetsChangesThroughWhileThereIsRoom) {
  WatchGate gate;
  EXPECT_EQ(gate.change(false), Send::Change);
  EXPECT_EQ(gate.change(false), Send::Change);
}

TEST(WatchGate, OpensAgainWhenTheWordHasArrived) {
  WatchGate gate;
  EXPECT_EQ(gate.change(true), Send::Lost);
  EXPECT_EQ(gate.lost_arrived(), Send::Nothing);
  EXPECT_EQ(gate.change(false), Send::Change);
}

TEST(WatchGate, SaysItAgainForWhatWasDroppedBehindTheWord) {
  WatchGate gate;
  EXPECT_EQ(gate.change(true), Send::Lost);
  // There is room again, but the client may read the store before it sees this change.
  EXPECT_EQ(gate.change(false), Send::Nothing);
  EXPECT_EQ(gate.change(true), Send::Nothing);
  EXPECT_EQ(gate.lost_arrived(), Send::Lost);
  EXPECT_EQ(gate.lost_arrived(), Send::Nothing);
  EXPECT_EQ(gate.change(false), Send::Change);
}

}  // namespace
}  // namespace trireme::net
