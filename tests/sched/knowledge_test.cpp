#include "trireme/sched/knowledge.h"

#include <gtest/gtest.h>

#include "helpers.h"

namespace trireme::sched {
namespace {

// What a rank hears of a third one counts: rank 2 tells rank 0 how far rank 1 was.
TEST(Knowledge, PassesThroughThirdRanks) {
  // A ring: the channel from rank 0 to rank 1 has no way back but over rank 2.
  Schedule ring = from_rows(
      {"0F0,0SEND_F0,3RECV_F0,3F0,0F1,0SEND_F1",
       "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1F1",
       "2RECV_F0,2F0,2SEND_F0"});
  ring.lowered = true;
  const ChannelMap map(ring);
  const auto progress = receiver_progress(ring, map);
  for (size_t c = 0; c < map.channels().size(); ++c) {
    const Channel& channel = map.channels()[c];
    if (channel.from == 0 && channel.to == 1 && channel.forward) {
      // Nothing at first; then that rank 1 has come to its own send.
      EXPECT_EQ(progress[c], (std::vector<uint32_t>{0, 2}));
    }
  }
}

}  // namespace
}  // namespace trireme::sched
