// How a call over several hosts begins.
#include "trireme/comm/wire/hosts_call.h"

#include <cstring>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "local_hosts.h"
#include "trireme/comm/collectives.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using testing::contains;
using testing::message_of;

// Pairs of calls that differ in kind, in the length of what they bring along, or in the
// length of the news: whatever meets inside a host, all hosts get the same words.
TEST(HostsCallRanks, EveryTwoCallsThatDifferAreToldApart) {
  const std::vector<std::function<void(const Group&)>> calls = {
      [](const Group& world) { barrier(world); },
      [](const Group& world) { all_reduce(world, at::ones({1})); },
      [](const Group& world) { all_reduce(world, at::ones({500})); },
      [](const Group& world) {
        all_reduce(world, at::ones({500}), {.op = ReduceOp::Max});
      },
      [](const Group& world) { reduce(world, at::ones({500}), 3); },
      [](const Group& world) {
        all_gather(world, at::ones({500 * world.size()}), at::ones({500}));
      },
      [](const Group& world) { broadcast(world, at::ones({500}), 1); },
      [](const Group& world) { all_reduce(world, at::ones({90000})); },
      [](const Group& world) { world.split(0); }};
  run_hosts({2, 2}, [&](const Group& world) {
    for (size_t a = 0; a < calls.size(); ++a)
      for (size_t b = 0; b < calls.size(); ++b)
        for (int odd = 0; odd < 4 && a != b; ++odd) {
          const std::string what = message_of<InvalidArgument>(
              [&] { calls[world.rank() == odd ? b : a](world); });
          EXPECT_TRUE(contains(what, text("rank ", odd, " called")));
        }
    at::Tensor one = at::ones({1});
    all_reduce(world, one);
    EXPECT_EQ(one.item<float>(), 4.0F);
  });
}

TEST(HostsCallRanks, ARankThatHasLeftAGroupIsNamedOnEveryHost) {
  for (int leaver = 0; leaver < 5; ++leaver)
    run_hosts({2, 1, 2}, [leaver](const Group& world) {
      Group group = world.split(0);
      barrier(group);
      if (world.rank() == leaver) {
        group.close();
      } else {
        try {
          barrier(group);
          ADD_FAILURE() << "no error on rank " << world.rank();
        } catch (const PeerError& error) {
          EXPECT_EQ(error.rank(), leaver);
          EXPECT_TRUE(contains(error.what(), "has left this group"));
        }
      }
      barrier(world);  // goes on
    });
}

}  // namespace
}  // namespace trireme::comm
