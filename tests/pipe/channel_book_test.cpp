#include "trireme/pipe/channel_book.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/sched/generate.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

Program book_program(const char* name, int microbatches) {
  return make_program(
      sched::generate(name, {.ranks = 2, .microbatches = microbatches}));
}

size_t forward_channel(const Program& p) {
  for (size_t i = 0; i < p.channels.channels().size(); ++i)
    if (p.channels.channels()[i].forward)
      return i;
  return 0;
}

TEST(ChannelBookRanks, OneChannelServesProgramsOfAnySize) {
  for (const auto backend : {testing::Backend::Local, testing::Backend::Shm})
    testing::run_world(backend, 2, [](const comm::Group& world) {
      ChannelBook book(world);
      // Larger, smaller, larger still: a message goes through each time.
      for (const int microbatches : {2, 9, 4, 40}) {
        const Program p = book_program("GPipe", microbatches);
        auto channels = book.open(p);
        auto& channel = channels.at(forward_channel(p));
        ASSERT_TRUE(channel);
        for (int i = 0; i < microbatches; ++i)
          if (world.rank() == 0)
            channel->send({.tensors = {at::full({2}, i)}});
        for (int i = 0; i < microbatches; ++i)
          if (world.rank() == 1) {
            EXPECT_EQ(channel->receive().tensors.at(0)[1].item<int>(), i);
          }
      }
    });
}

TEST(ChannelBookRanks, ForeignChannelsAreEmpty) {
  testing::run_world(testing::Backend::Local, 3, [](const comm::Group& world) {
    ChannelBook book(world);
    const Program p =
        make_program(sched::generate("1F1B", {.ranks = 3, .microbatches = 3}));
    const auto channels = book.open(p);
    for (size_t i = 0; i < channels.size(); ++i) {
      const sched::Channel& c = p.channels.channels()[i];
      EXPECT_EQ(
          channels[i].has_value(), c.from == world.rank() || c.to == world.rank());
    }
  });
}

// Different programs from the start on: the channels meet, and the first message tells.
TEST(ChannelBookRanks, EndsOfDifferentProgramsFindOneAnother) {
  testing::run_world(testing::Backend::Local, 2, [](const comm::Group& world) {
    ChannelBook book(world);
    const bool trains = world.rank() == 0;
    const Program p =
        trains ? book_program("1F1B", 8) : make_program(forward_schedule({0, 1}, 8));
    const Stamp mine{
        .call = trains ? StepCall::Step : StepCall::Evaluate, .microbatches = 8};
    auto channels = book.open(p);
    auto& channel = channels.at(forward_channel(p));
    if (trains) {
      channel->send({.header = {.word = mine.to_word()}});
    } else {
      const Stamp got = Stamp::from_word(channel->receive().header.word);
      EXPECT_TRUE(testing::contains(
          testing::message_of<InvalidArgument>([&] { channel->check(got, mine); }),
          "expected rank 0 to call evaluate() with 8 microbatches, as rank 1 does, got "
          "step() with 8"));
    }
    comm::barrier(world);
  });
}

// A rank with a larger program than its peer's is told so by the first message.
TEST(ChannelBookRanks, ProgramsOfDifferentSizesAreNoticed) {
  testing::run_world(testing::Backend::Local, 2, [](const comm::Group& world) {
    ChannelBook book(world);
    const Program small = book_program("GPipe", 2);
    const Program large = book_program("GPipe", 32);
    auto channels = book.open(world.rank() == 1 ? large : small);
    auto& channel = channels.at(forward_channel(small));
    if (world.rank() == 0) {
      const Stamp mine{.step = 1, .microbatches = 2};
      channel->send({.header = {.word = mine.to_word()}});
    } else {
      const Stamp got = Stamp::from_word(channel->receive().header.word);
      EXPECT_TRUE(testing::contains(
          testing::message_of<InvalidArgument>(
              [&] { channel->check(got, {.step = 1, .microbatches = 32}); }),
          "with 32 microbatches, as rank 1 does, got step() with 2 microbatches"));
    }
    comm::barrier(world);
  });
}

// A whole step's messages go out before the first is received.
TEST(ChannelBookRanks, ASendNeverWaits) {
  for (const auto backend : {testing::Backend::Local, testing::Backend::Shm})
    testing::run_world(backend, 2, [](const comm::Group& world) {
      ChannelBook book(world);
      const Program p = book_program("GPipe", kChannelMessages);
      auto channels = book.open(p);
      auto& channel = channels.at(forward_channel(p));
      if (world.rank() == 0)
        for (int i = 0; i < kChannelMessages; ++i)
          channel->send({.header = {.word = i}});
      comm::barrier(world);
      if (world.rank() == 1) {
        for (int i = 0; i < kChannelMessages; ++i)
          ASSERT_EQ(channel->receive().header.word, i);
      }
    });
}

}  // namespace
}  // namespace trireme::pipe
