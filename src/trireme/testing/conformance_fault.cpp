// Conformance: wrong calls, and ranks that fail.
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

using comm::Group;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

void mismatched_calls_name_who_called_what(const Group& world) {
  if (world.size() == 1)
    return;
  const bool odd = world.rank() == world.size() - 1;
  // Another operation, another dtype, another count, another root: small and large.
  for (const int64_t count : {4, 200000}) {
    at::Tensor x = at::ones({count});
    at::Tensor y = at::ones({count}, at::kLong);
    at::Tensor z = at::ones({count + 1});
    const std::vector<std::function<void()>> wrong = {
        [&] { comm::broadcast(world, x, 0); },
        [&] { comm::all_reduce(world, y); },
        [&] { comm::all_reduce(world, z); },
        [&] { comm::all_reduce(world, x, {.op = comm::ReduceOp::Max}); },
        [&] { comm::reduce(world, x, 0); },
        [&] { comm::barrier(world); }};
    for (size_t i = 0; i < wrong.size(); ++i) {
      const std::string what = message_of<InvalidArgument>([&] {
        if (odd)
          wrong[i]();
        else
          comm::all_reduce(world, x);
      });
      EXPECT_TRUE(contains(what, text("called all_reduce sum float32[", count, "]")));
      EXPECT_TRUE(contains(what, text("rank ", world.size() - 1, " called ")));
      // All ranks got the error, so the group is still in step.
      at::Tensor one = at::ones({1});
      comm::all_reduce(world, one);
      EXPECT_EQ(one.item<float>(), static_cast<float>(world.size())) << "case " << i;
    }
  }
}

void wrong_arguments_are_refused_before_anybody_waits(const Group& world) {
  at::Tensor x = at::ones({4});
  EXPECT_THROW(comm::broadcast(world, x, world.size()), InvalidArgument);
  EXPECT_THROW(comm::broadcast(world, x, -1), InvalidArgument);
  EXPECT_THROW(comm::all_reduce(world, at::Tensor()), InvalidArgument);
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>(
          [&] { comm::all_reduce(world, at::empty({4}, at::kMeta)); }),
      "meta"));
  EXPECT_THROW(comm::all_reduce(world, x.to_sparse()), InvalidArgument);
  EXPECT_THROW(comm::all_reduce(world, at::ones({1}).expand({4})), InvalidArgument);
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] {
        comm::all_reduce(world, x.to(at::kLong), {.op = comm::ReduceOp::Mean});
      }),
      "int64"));
  EXPECT_THROW(
      comm::all_reduce(world, x, {.op = comm::ReduceOp::BitOr}), InvalidArgument);
  EXPECT_THROW(
      comm::all_gather(world, at::ones({4 * world.size() + 1}), x), InvalidArgument);
  EXPECT_THROW(
      comm::all_gather(world, at::ones({4 * world.size()}, at::kLong), x),
      InvalidArgument);
  EXPECT_THROW(comm::scatter(world, x, {x}, world.size()), InvalidArgument);
  EXPECT_THROW(
      comm::all_to_all(world, std::vector<at::Tensor>(), std::vector<at::Tensor>()),
      InvalidArgument);
  comm::all_reduce(world, x);
  EXPECT_EQ(x[0].item<float>(), static_cast<float>(world.size()));
}

void a_failing_rank_wakes_the_others(const Group& world) {
  if (world.size() == 1)
    return;
  const Group half = world.split(world.rank() % 2);
  comm::barrier(world);
  const int culprit = world.size() - 1;
  if (world.rank() == culprit) {
    std::this_thread::sleep_for(milliseconds(60));
    world.abort("the oar is broken");
  }
  const auto start = Clock::now();
  const auto check = [&](const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << "no error on rank " << world.rank();
    } catch (const PeerError& error) {
      EXPECT_EQ(error.rank(), culprit);
      EXPECT_TRUE(contains(error.what(), "the oar is broken"));
    }
  };
  check([&] { comm::barrier(world); });
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
  // From now on everything of this world refuses, with the same error.
  at::Tensor x = at::ones({3});
  check([&] { comm::all_reduce(half, x); });
  check([&] { world.split(0); });
  check([&] {
    const comm::Channel self(world, {world.rank(), world.rank()});
    self.receive();
  });
  check([&] { comm::all_reduce(world, x, {.async = true}).wait(); });
}

void a_renewed_group_works_again(const Group& world) {
  Group group = world;
  for (int round = 0; round < 3; ++round) {
    if (group.rank() == round % group.size())
      group.abort("once more");
    EXPECT_THROW(comm::barrier(group), PeerError);
    const Group old = group;
    group = group.renew();
    EXPECT_EQ(group.rank(), world.rank());
    at::Tensor x = at::full({50000}, group.rank() + round);
    comm::all_reduce(group, x);
    const int n = group.size();
    EXPECT_EQ(x[49999].item<int>(), n * (n - 1) / 2 + n * round);
    const Group part = group.split(group.rank() % 2);
    comm::barrier(part);
    EXPECT_THROW(comm::barrier(old), PeerError);
    comm::barrier(group);  // nobody fails again before all have come so far
  }
  EXPECT_THROW(group.split(0).renew(), NotSupported);
}

void a_rank_that_never_comes_is_named(const Group& world) {
  if (world.size() == 1)
    return;
  const int absent = world.size() - 1;
  at::Tensor x = at::ones({3});
  if (world.rank() == absent) {
    std::this_thread::sleep_for(milliseconds(400));
    EXPECT_THROW(comm::all_reduce(world, x), TimeoutError);
    return;
  }
  const std::string what = message_of<TimeoutError>(
      [&] { comm::all_reduce(world, x, {.timeout = milliseconds(150)}); });
  EXPECT_TRUE(contains(what, text("rank ", absent, " did not come")));
  EXPECT_TRUE(contains(what, "all_reduce sum float32[3]"));
}

void a_rank_that_leaves_is_named(const Group& world) {
  if (world.size() == 1)
    return;
  Group group = world.split(0);
  Group whole = world;
  if (world.rank() == 0) {
    group.close();
    whole.close();
    return;
  }
  try {
    comm::barrier(group);
    // Others may have left by now too, after they noticed.
    ADD_FAILURE() << "no error";
  } catch (const PeerError& error) {
    EXPECT_TRUE(contains(error.what(), "has left"));
  }
}

}  // namespace

std::vector<ConformanceCase> fault_cases() {
  return {
      {"MismatchedCallsNameWhoCalledWhat", mismatched_calls_name_who_called_what},
      {"WrongArgumentsAreRefusedBeforeAnybodyWaits",
       wrong_arguments_are_refused_before_anybody_waits},
      {"AFailingRankWakesTheOthers", a_failing_rank_wakes_the_others},
      {"ARenewedGroupWorksAgain", a_renewed_group_works_again},
      {"ARankThatNeverComesIsNamed", a_rank_that_never_comes_is_named},
      {"ARankThatLeavesIsNamed", a_rank_that_leaves_is_named}};
}

}  // namespace trireme::testing
