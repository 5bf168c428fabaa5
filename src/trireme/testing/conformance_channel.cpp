// Conformance: channels and the batched exchange.
#include <chrono>
#include <thread>

#include <ATen/ATen.h>

#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/conformance.h"

namespace trireme::testing {
namespace {

using comm::Channel;
using comm::Group;
using comm::Message;

// Every rank sends to the next one; with one rank, to itself.
struct Ring {
  explicit Ring(
      const Group& world, int tag = 0, const comm::ChannelOptions& options = {})
      : next((world.rank() + 1) % world.size()),
        before((world.rank() + world.size() - 1) % world.size()),
        out(world, {world.rank(), next, tag}, options),
        // A rank alone, or a pair, has both ends of an edge in one object or not at
        // all.
        in(world.size() == 1 ? out
                             : Channel(world, {before, world.rank(), tag}, options)) {}
  int next, before;
  Channel out, in;
};

void messages_arrive_in_order_with_any_shape(const Group& world) {
  const Ring ring(world);
  const auto message = [&](int i, int from) {
    const int64_t rows = i * 37 % 11;
    return at::full({rows, i % 5, 3}, from * 1000 + i, i % 2 ? at::kFloat : at::kLong);
  };
  for (int i = 0; i < 60; ++i)
    ring.out.send({.tensors = {message(i, world.rank())}, .header = {.word = i}});
  for (int i = 0; i < 60; ++i) {
    const Message got = ring.in.receive();
    ASSERT_EQ(got.header.word, i);
    EXPECT_TRUE(same(got.tensors.at(0), message(i, ring.before)));
  }
}

void messages_carry_lists_and_absent_tensors(const Group& world) {
  const Ring ring(world);
  const at::Tensor wide = at::arange(24).reshape({4, 6}).t();
  const at::Tensor leaf = at::ones({2}, at::kHalf).set_requires_grad(true);
  ring.out.send(
      {.tensors =
           {at::Tensor(), wide, leaf, at::empty({0, 7}), at::ones({}, at::kBool)},
       .header = {.word = -5, .bytes = std::string("a\0b", 3)}});
  ring.out.send({});
  const Message got = ring.in.receive();
  ASSERT_EQ(got.tensors.size(), 5U);
  EXPECT_FALSE(got.tensors[0].defined());
  EXPECT_TRUE(same(got.tensors[1], wide));
  EXPECT_TRUE(same(got.tensors[2], leaf));
  EXPECT_TRUE(got.tensors[2].requires_grad() && got.tensors[2].is_leaf());
  EXPECT_FALSE(got.tensors[1].requires_grad());
  EXPECT_EQ(got.tensors[3].sizes(), at::IntArrayRef({0, 7}));
  EXPECT_TRUE(got.tensors[4].item<bool>());
  EXPECT_EQ(got.header.word, -5);
  EXPECT_EQ(got.header.bytes, std::string("a\0b", 3));
  EXPECT_TRUE(ring.in.receive().tensors.empty());
}

void large_messages_pass(const Group& world) {
  const Ring ring(world);
  for (int round = 0; round < 3; ++round) {
    const auto of = [&](int from) { return at::arange(600000).add(from + round); };
    ring.out.send({.tensors = {of(world.rank())}});
    EXPECT_TRUE(same(ring.in.receive().tensors[0], of(ring.before)));
  }
}

void received_tensors_outlive_their_channel(const Group& world) {
  std::vector<at::Tensor> kept;
  {
    const Ring ring(world);
    for (int i = 0; i < 10; ++i)
      ring.out.send({.tensors = {at::full({2000}, i)}});
    for (int i = 0; i < 10; ++i)
      kept.push_back(ring.in.receive().tensors[0]);
  }
  {
    const Ring other(world, 1);
    for (int i = 0; i < 10; ++i)
      other.out.send({.tensors = {at::full({2000}, 100 + i)}});
    for (int i = 0; i < 10; ++i)
      other.in.receive();
  }
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(same(kept[static_cast<size_t>(i)], at::full({2000}, i)));
}

void tags_are_channels_of_their_own(const Group& world) {
  const Ring first(world, 1), second(world, 2);
  first.out.send({.header = {.word = 1}});
  second.out.send({.header = {.word = 2}});
  EXPECT_EQ(second.in.receive().header.word, 2);
  EXPECT_EQ(first.in.receive().header.word, 1);
  EXPECT_FALSE(first.in.try_receive().has_value());
  comm::barrier(world);
}

// Room comes back with a word of the receiver's, which over a network may be slower
// than a barrier.
void send_soon(const Channel& channel, const Message& message) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  bool sent = channel.try_send(message);
  while (!sent && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    sent = channel.try_send(message);
  }
  EXPECT_TRUE(sent);
}

void a_full_channel_says_how_full(const Group& world) {
  const Ring ring(world, 0, {.capacity_messages = 3});
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(ring.out.try_send({.header = {.word = i}}));
  EXPECT_FALSE(ring.out.try_send({}));
  const std::string what = message_of<TimeoutError>(
      [&] { ring.out.send({}, std::chrono::milliseconds(30)); });
  EXPECT_TRUE(contains(what, "3 of 3 messages wait"));
  comm::barrier(world);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(ring.in.receive().header.word, i);
  comm::barrier(world);
  send_soon(ring.out, {.header = {.word = 9}});
  EXPECT_EQ(ring.in.receive().header.word, 9);
}

void a_channel_is_also_full_of_bytes(const Group& world) {
  const Ring ring(world, 0, {.capacity_bytes = 100000});
  const Message large = {.tensors = {at::ones({15000})}};  // 60,000 bytes
  EXPECT_TRUE(ring.out.try_send(large));
  EXPECT_FALSE(ring.out.try_send(large));
  comm::barrier(world);
  ring.in.receive();  // dropped at once: the room comes back
  comm::barrier(world);
  send_soon(ring.out, large);
  ring.in.receive();
  comm::barrier(world);
  // One that is larger than the whole capacity passes alone.
  ring.out.send({.tensors = {at::ones({100000})}});
  EXPECT_EQ(ring.in.receive().tensors[0].numel(), 100000);
}

void a_missing_message_is_a_timeout(const Group& world) {
  const Ring ring(world);
  EXPECT_TRUE(contains(
      message_of<TimeoutError>([&] { ring.in.receive(std::chrono::milliseconds(30)); }),
      text("message 1 from rank ", ring.before)));
  comm::barrier(world);
}

void wait_any_gives_the_first_that_is_ready(const Group& world) {
  std::vector<Ring> rings;
  std::vector<Channel> inboxes;
  for (int tag = 0; tag < 3; ++tag) {
    rings.emplace_back(world, tag);
    inboxes.push_back(rings.back().in);
  }
  // A token on a channel that changes: one rank after the other is woken.
  const int last = 3 * world.size();
  if (world.rank() == 0)
    rings[1].out.send({.header = {.word = 1}});
  for (int i = 0; i < 3; ++i) {
    const size_t which = comm::wait_any(inboxes);
    const auto got = inboxes[which].try_receive();
    ASSERT_TRUE(got);
    const int64_t word = got->header.word;
    EXPECT_EQ(which, static_cast<size_t>(word % 3));
    if (word < last)
      rings[static_cast<size_t>((word + 1) % 3)].out.send(
          {.header = {.word = word + 1}});
  }
  EXPECT_TRUE(contains(
      message_of<TimeoutError>(
          [&] { comm::wait_any(inboxes, std::chrono::milliseconds(30)); }),
      text(
          "a message on one of 3 channels within 30 ms, but none came, first of all "
          "from rank ",
          rings[0].before)));
  comm::barrier(world);
}

void exchange_cannot_lock_up(const Group& world) {
  // Everybody sends more than the channels hold before anybody receives.
  std::vector<comm::Sending> sends;
  std::vector<Channel> receives;
  std::vector<Ring> rings;
  for (int tag = 0; tag < 3; ++tag)
    rings.emplace_back(world, tag, comm::ChannelOptions{.capacity_messages = 1});
  for (int i = 0; i < 12; ++i) {
    const Ring& ring = rings[static_cast<size_t>(i % 3)];
    sends.push_back(
        {ring.out, {.tensors = {at::full({500}, i)}, .header = {.word = i}}});
    receives.push_back(ring.in);
  }
  const auto got = comm::exchange(sends, receives);
  for (int i = 0; i < 12; ++i)
    EXPECT_EQ(got[static_cast<size_t>(i)].header.word, i);
}

void wrong_ends_are_refused(const Group& world) {
  EXPECT_THROW(Channel(world, {0, world.size()}), InvalidArgument);
  EXPECT_THROW(Channel(world, {-1, 0}), InvalidArgument);
  if (world.size() > 2 && world.rank() == 2) {
    EXPECT_THROW(Channel(world, {0, 1}), InvalidArgument);
  }
  if (world.size() > 1 && world.rank() < 2) {
    const Channel edge(world, {0, 1});
    if (world.rank() == 0) {
      EXPECT_THROW(edge.receive(), InvalidArgument);
    } else {
      EXPECT_THROW(edge.send({}), InvalidArgument);
    }
  }
  const Channel self(world, {world.rank(), world.rank(), 5});
  EXPECT_THROW(
      Channel(world, {world.rank(), world.rank(), 5}),
      InvalidArgument);  // a second one
  EXPECT_THROW(self.send({.tensors = {at::empty({2}, at::kMeta)}}), InvalidArgument);
  EXPECT_THROW(
      self.send({.header = {.bytes = std::string(5000, 'x')}}), InvalidArgument);
  self.send({.header = {.word = 3}});
  EXPECT_EQ(self.receive().header.word, 3);
  comm::barrier(world);
}

void channels_open_again_after_closing(const Group& world) {
  for (int round = 0; round < 5; ++round) {
    {
      const Ring ring(world, 4);
      ring.out.send({.tensors = {at::full({300}, round)}});
      EXPECT_TRUE(same(ring.in.receive().tensors[0], at::full({300}, round)));
    }
    comm::barrier(world);  // both ends are closed
  }
}

}  // namespace

std::vector<ConformanceCase> channel_cases() {
  return {
      {"MessagesArriveInOrderWithAnyShape", messages_arrive_in_order_with_any_shape},
      {"MessagesCarryListsAndAbsentTensors", messages_carry_lists_and_absent_tensors},
      {"LargeMessagesPass", large_messages_pass},
      {"ReceivedTensorsOutliveTheirChannel", received_tensors_outlive_their_channel},
      {"TagsAreChannelsOfTheirOwn", tags_are_channels_of_their_own},
      {"AFullChannelSaysHowFull", a_full_channel_says_how_full},
      {"AChannelIsAlsoFullOfBytes", a_channel_is_also_full_of_bytes},
      {"AMissingMessageIsATimeout", a_missing_message_is_a_timeout},
      {"WaitAnyGivesTheFirstThatIsReady", wait_any_gives_the_first_that_is_ready},
      {"ExchangeCannotLockUp", exchange_cannot_lock_up},
      {"WrongEndsAreRefused", wrong_ends_are_refused},
      {"ChannelsOpenAgainAfterClosing", channels_open_again_after_closing}};
}

}  // namespace trireme::testing
