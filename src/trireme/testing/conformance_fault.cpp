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

// Calls that are made of several must not meet a plain one that looks like a part of
// them.
void composed_calls_do_not_meet_plain_ones(const Group& world) {
  if (world.size() == 1)
    return;
  const bool odd = world.rank() == world.size() - 1;
  const auto check = [&](const std::function<void()>& composed,
                         const std::function<void()>& plain,
                         const std::string& name) {
    const std::string what =
        message_of<InvalidArgument>([&] { odd ? plain() : composed(); });
    EXPECT_TRUE(contains(what, "called " + name));
    comm::barrier(world);
  };
  at::Tensor word = at::ones({1}, at::kLong);
  at::Tensor words = at::ones({world.size()}, at::kLong);
  std::vector<at::Tensor> list(static_cast<size_t>(world.size()), word), outputs;
  for (int k = 0; k < world.size(); ++k)
    outputs.push_back(at::ones({1}, at::kLong));
  check(
      [&] { world.split(0); }, [&] { comm::all_gather(world, words, word); }, "split");
  check(
      [&] { comm::all_to_all(world, outputs, list); },
      [&] { comm::all_to_all(world, words, words.clone()); },
      "all_to_all of lists");
  at::Tensor row = at::ones({25}, at::kLong);
  check(
      [&] { comm::all_gather_uneven(world, outputs, word); },
      [&] { comm::all_gather(world, at::ones({25 * world.size()}, at::kLong), row); },
      "all_gather_uneven");
}

void outputs_that_share_memory_with_inputs_are_refused(const Group& world) {
  at::Tensor x = at::ones({4 * world.size()});
  EXPECT_THROW(comm::all_to_all(world, x, x), InvalidArgument);
  if (world.size() > 1) {
    const int other = (world.rank() + 1) % world.size();
    const at::Tensor theirs = x.slice(0, 4 * other, 4 * other + 4);
    EXPECT_THROW(comm::all_gather(world, x, theirs), InvalidArgument);
    EXPECT_THROW(comm::reduce_scatter(world, theirs, x), InvalidArgument);
  }
  const at::Tensor own = x.slice(0, 4 * world.rank(), 4 * world.rank() + 4);
  comm::reduce_scatter(world, own, x);
  EXPECT_EQ(own[3].item<float>(), static_cast<float>(world.size()));
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
    if (group.rank() == round % group.size()) {
      // Over a network, word of a failure may overtake what others still wait for.
      std::this_thread::sleep_for(milliseconds(30));
      group.abort("once more");
    }
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

void a_rank_that_closes_a_group_is_named_though_it_stays(const Group& world) {
  if (world.size() == 1)
    return;
  Group group = world.split(0);
  if (world.rank() == 0) {
    group.close();
  } else {
    EXPECT_TRUE(contains(
        message_of<PeerError>([&] { comm::barrier(group); }), "has left this group"));
  }
  comm::barrier(world);  // the world itself goes on
}

void an_exception_that_is_caught_stops_nobody(const Group& world) {
  try {
    const Group part = world.split(0);
    throw std::out_of_range("caught below");
  } catch (const std::out_of_range&) {
  }
  comm::barrier(world);
}

void exchange_notices_who_has_left(const Group& world) {
  if (world.size() == 1)
    return;
  if (world.rank() == 0) {
    const comm::Channel edge(world, {0, 1});
    edge.send({.header = {.word = 5}});
    Group whole = world;
    whole.close();
    return;
  }
  if (world.rank() != 1)
    return;
  const comm::Channel edge(world, {0, 1}), other(world, {0, 1, 1});
  EXPECT_EQ(comm::exchange({}, {edge})[0].header.word, 5);
  const auto start = Clock::now();
  EXPECT_THROW(comm::exchange({}, {other}), PeerError);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5));
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
      {"ComposedCallsDoNotMeetPlainOnes", composed_calls_do_not_meet_plain_ones},
      {"OutputsThatShareMemoryWithInputsAreRefused",
       outputs_that_share_memory_with_inputs_are_refused},
      {"ARankThatClosesAGroupIsNamedThoughItStays",
       a_rank_that_closes_a_group_is_named_though_it_stays,
       true},
      {"AnExceptionThatIsCaughtStopsNobody", an_exception_that_is_caught_stops_nobody},
      {"ExchangeNoticesWhoHasLeft", exchange_notices_who_has_left, true},
      {"WrongArgumentsAreRefusedBeforeAnybodyWaits",
       wrong_arguments_are_refused_before_anybody_waits},
      {"AFailingRankWakesTheOthers", a_failing_rank_wakes_the_others, true},
      {"ARenewedGroupWorksAgain", a_renewed_group_works_again, true},
      {"ARankThatNeverComesIsNamed", a_rank_that_never_comes_is_named, true},
      {"ARankThatLeavesIsNamed", a_rank_that_leaves_is_named, true}};
}

}  // namespace trireme::testing
