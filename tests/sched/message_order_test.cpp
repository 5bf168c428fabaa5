#include "trireme/sched/message_order.h"

#include "helpers.h"
#include "trireme/sched/lower.h"

namespace trireme::sched {
namespace {

TEST(MessageOrder, CountsTheMessagesOfAChannel) {
  const Schedule program = lower(generate("1F1B", {.ranks = 4, .microbatches = 12}));
  const ChannelMap map(program);
  const MessageOrder order(program, map);
  EXPECT_EQ(order.first_mismatch(), "");
  ASSERT_EQ(map.channels().size(), 6U);
  for (size_t c = 0; c < map.channels().size(); ++c)
    EXPECT_EQ(order.messages(c), 12);
}

TEST(MessageOrder, NamesTheFirstThatIsReceivedOutOfOrder) {
  const Schedule program =
      from_rows({"0F0,0SEND_F0,0F1,0SEND_F1", "1RECV_F1,1F1,1RECV_F0,1F0"});
  const ChannelMap map(program);
  const std::string words = MessageOrder(program, map).first_mismatch();
  EXPECT_TRUE(contains(
      words,
      "message 0 of the activations from rank 0 to rank 1 is sent by 0SEND_F0 (step 1) "
      "but received by 1RECV_F1 (step 0)"))
      << words;
}

TEST(MessageOrder, NamesOneThatIsNeverReceived) {
  const Schedule program = from_rows({"0F0,0SEND_F0,0F1,0SEND_F1", "1RECV_F0,1F0,1F1"});
  const ChannelMap map(program);
  EXPECT_TRUE(contains(
      MessageOrder(program, map).first_mismatch(), "but received by nothing more"));
}

}  // namespace
}  // namespace trireme::sched
