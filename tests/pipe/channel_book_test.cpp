#include "trireme/pipe/channel_book.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/sched/generate.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

Program program(const char* name, int microbatches) {
  return make_program(
      sched::generate(name, {.ranks = 2, .microbatches = microbatches}));
}

size_t forward_channel(const Program& p) {
  for (size_t i = 0; i < p.channels.channels().size(); ++i)
    if (p.channels.channels()[i].forward)
      return i;
  return 0;
}

TEST(ChannelBookRanks, BothEndsAgreeAlsoWhenProgramsGrow) {
  for (const auto backend : {testing::Backend::Local, testing::Backend::Shm})
    testing::run_world(backend, 2, [](const comm::Group& world) {
      ChannelBook book(world);
      // Larger, smaller, larger still: a message goes through each time.
      for (const int microbatches : {2, 9, 4, 40}) {
        const Program p = program("GPipe", microbatches);
        const auto channels = book.open(p);
        const auto& channel = channels.at(forward_channel(p));
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

}  // namespace
}  // namespace trireme::pipe
