#include "trireme/comm/no_collectives.h"

#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::comm {
namespace {

TEST(NoCollectives, TheInnermostHasTheWord) {
  EXPECT_NO_THROW(NoCollectives::check());
  {
    const NoCollectives outer("outer");
    {
      const NoCollectives inner("inner");
      EXPECT_EQ(
          testing::message_of<InvalidArgument>([] { NoCollectives::check(); }),
          "inner");
    }
    EXPECT_EQ(
        testing::message_of<InvalidArgument>([] { NoCollectives::check(); }), "outer");
    std::thread([] { EXPECT_NO_THROW(NoCollectives::check()); }).join();
  }
  EXPECT_NO_THROW(NoCollectives::check());
}

TEST(NoCollectivesRanks, RefusesWhatHasAnOrder) {
  testing::run_world(testing::Backend::Local, 2, [](const Group& world) {
    const at::Tensor x = at::ones({3});
    std::vector<at::Tensor> parts;
    {
      const NoCollectives scope("not here");
      EXPECT_THROW(all_reduce(world, x), InvalidArgument);
      EXPECT_THROW(all_reduce(world, x, {.async = true}), InvalidArgument);
      EXPECT_THROW(all_gather_uneven(world, parts, x), InvalidArgument);
      EXPECT_THROW(barrier(world), InvalidArgument);
      EXPECT_THROW(world.split(0), InvalidArgument);
      // Messages find their way by their channel.
      const Channel out(world, {world.rank(), 1 - world.rank()});
      const Channel in(world, {1 - world.rank(), world.rank()});
      out.send({.tensors = {x}});
      EXPECT_EQ(in.receive().tensors.size(), 1U);
    }
    all_reduce(world, x);
    EXPECT_EQ(x[0].item<float>(), 2);
  });
}

TEST(NoCollectivesRanks, AGroupOfOneHasNobodyToMeet) {
  testing::run_world(testing::Backend::Local, 1, [](const Group& world) {
    const NoCollectives scope("not here");
    EXPECT_NO_THROW(barrier(world));
  });
}

}  // namespace
}  // namespace trireme::comm
