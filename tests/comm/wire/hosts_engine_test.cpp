// The engine over several hosts: the conformance suite, the same bits as on one host,
// splits, and failures that cross hosts.
#include "trireme/comm/wire/hosts_engine.h"

#include <atomic>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../shared/staged_world.h"
#include "local_hosts.h"
#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/conformance.h"

namespace trireme::comm {
namespace {

using std::chrono::milliseconds;
using testing::contains;
using testing::message_of;

void add_suite(
    const std::string& name, std::vector<int> sizes, const WireTuning& tuning = {}) {
  const int ranks = std::accumulate(sizes.begin(), sizes.end(), 0);
  testing::register_conformance(
      {.suite = "ConformanceHosts" + name + "Ranks",
       .run = [sizes, tuning](
                  int,
                  const testing::RankBody& body) { run_hosts(sizes, body, tuning); },
       .sizes = {ranks}});
}

const bool hosts_registered = [] {
  add_suite("22", {2, 2});
  add_suite("31", {3, 1});
  add_suite("111", {1, 1, 1});
  add_suite("132", {1, 3, 2});
  // Nothing is small, and pieces are short.
  add_suite(
      "22Chain", {2, 2}, {.payload_bytes = 600, .small_bytes = 0, .chain_bytes = 5000});
  add_suite("213Chain", {2, 1, 3}, {.small_bytes = 0, .chain_bytes = 5000});
  // Everything is small, but only the smallest rides with the call.
  add_suite("22Small", {2, 2}, {.payload_bytes = 600, .small_bytes = size_t{1} << 28});
  return true;
}();

TEST(HostsEngineRanks, IsTheBackendOfItsWire) {
  EXPECT_TRUE(hosts_registered);
  run_hosts({2, 1}, [](const Group& world) {
    EXPECT_EQ(world.backend(), "thread_wire");
    EXPECT_EQ(world.members(), (std::vector{0, 1, 2}));
    world.engine().check();
  });
}

TEST(HostsEngineRanks, SplitsByHostAndAcrossHosts) {
  run_hosts({2, 2, 1}, [](const Group& world) {
    const int rank = world.rank();
    const auto expect = [&](const Group& part, std::vector<int> members) {
      EXPECT_EQ(part.members(), members);
      at::Tensor sum = at::full({70000}, rank, at::kLong);
      all_reduce(part, sum);
      int64_t all = 0;
      for (const int member : members)
        all += member;
      EXPECT_TRUE(testing::same(sum, at::full({70000}, all, at::kLong)));
      EXPECT_EQ(members[static_cast<size_t>(part.rank())], rank);
    };
    const Group host = world.split(rank / 2);
    expect(
        host,
        rank < 2   ? std::vector{0, 1}
        : rank < 4 ? std::vector{2, 3}
                   : std::vector{4});
    EXPECT_EQ(host.backend(), rank < 4 ? "local" : "none");
    const Group odd = world.split(rank % 2);
    expect(odd, rank % 2 == 0 ? std::vector{0, 2, 4} : std::vector{1, 3});
    const Group reversed = world.split(0, -rank);
    expect(reversed, {4, 3, 2, 1, 0});
    EXPECT_NE(dynamic_cast<HostsEngine*>(&reversed.engine()), nullptr);
    // 0, 2, 4, 1, 3: the hosts are mixed, so only the wire is left.
    const Group mixed = world.split(0, rank % 2);
    expect(mixed, {0, 2, 4, 1, 3});
    EXPECT_EQ(dynamic_cast<HostsEngine*>(&mixed.engine()), nullptr);
    const Group most = world.split(rank == 0 ? -1 : 3);
    EXPECT_EQ(static_cast<bool>(most), rank != 0);
    if (most)
      expect(most, {1, 2, 3, 4});
    const Group again = reversed.split(reversed.rank() < 4 ? 0 : 1);
    expect(again, rank > 0 ? std::vector{4, 3, 2, 1} : std::vector{0});
  });
}

TEST(HostsEngineRanks, ChannelsInsideAndBetweenHosts) {
  run_hosts({2, 2}, [](const Group& world) {
    const int next = (world.rank() + 1) % 4, before = (world.rank() + 3) % 4;
    const Channel out(world, {world.rank(), next}), in(world, {before, world.rank()});
    for (int i = 0; i < 50; ++i) {
      out.send({.tensors = {at::full({1000}, i)}, .header = {.word = world.rank()}});
      const Message got = in.receive();
      EXPECT_EQ(got.header.word, before);
      EXPECT_TRUE(testing::same(got.tensors[0], at::full({1000}, i)));
    }
  });
}

TEST(HostsEngineRanks, RefusesRanksThatAreMixed) {
  const LocalWireNet net(3);
  const LocalWorld pair(2), single(1);
  run_threads(
      3,
      [&](int rank, const Deadline& deadline) {
        auto flat = net.join(rank, deadline);
        auto inner = std::static_pointer_cast<SharedEngine>(
            rank == 1 ? single.join(0, deadline) : pair.join(rank / 2, deadline));
        EXPECT_TRUE(contains(
            message_of<InvalidArgument>([&] {
              HostsEngine::root(inner, flat, {0, 1, 0});
            }),
            "rank 2 is on the same host as an earlier rank, with others in between"));
        return flat;
      },
      [](const Group& world) { barrier(world); });
}

/// Two hosts of two ranks, where a rank (a thread) may be refused memory.
class RefusingHosts {
 public:
  std::shared_ptr<Engine> join(int rank, const Deadline& deadline) const {
    const Host& host = hosts_[rank / 2];
    auto inner = SharedEngine::root(
        {.rank = rank % 2,
         .size = 2,
         .place = {.first_rank = rank / 2 * 2, .ranks_in_all = 4},
         .memory = host.memory,
         .control = host.control,
         .recorder = std::make_shared<FlightRecorder>(
             host.rings.get(), rank % 2, 2, "", host.rings),
         .backend = "staged"},
        deadline);
    return HostsEngine::root(std::move(inner), net_.join(rank, deadline), {0, 0, 2, 2});
  }

 private:
  struct Host {
    std::shared_ptr<RefusingHeap> memory = std::make_shared<RefusingHeap>();
    uint64_t control = make_world(*memory, 2);
    std::shared_ptr<std::byte> rings = flight_rings(2);
  };
  Host hosts_[2];
  LocalWireNet net_{4};
};

TEST(HostsEngineRanks, ASplitFailsOnAllHostsWhereOneHasNoMemory) {
  const RefusingHosts hosts;
  run_threads(
      4,
      [&](int rank, const Deadline& deadline) { return hosts.join(rank, deadline); },
      [](const Group& world) {
        for (int without = 0; without < 4; ++without) {
          if (world.rank() == without)
            RefusingHeap::refuse_at = 1;
          const std::string what = message_of<InvalidArgument>([&] { world.split(0); });
          const bool here = world.rank() / 2 == without / 2;
          EXPECT_TRUE(contains(
              what,
              world.rank() == without ? "got none"
              : here                  ? text("rank ", without)
              : without < 2           ? std::string("none for ranks 0 and 1")
                                      : std::string("none for ranks 2 and 3")));
          const Group part = world.split(0);  // nobody was harmed
          at::Tensor sum = at::ones({3});
          all_reduce(part, sum);
          EXPECT_EQ(sum[0].item<float>(), 4.0F);
        }
      },
      {.timeout = std::chrono::seconds(5)});
}

// ---- failures

struct Trial {
  std::string name;
  std::function<void(const Group&)> run;
};

std::vector<Trial> trials() {
  const auto large = [] { return at::ones({100000}); };
  return {
      {"barrier", [](const Group& world) { barrier(world); }},
      {"all_reduce of little",
       [](const Group& world) { all_reduce(world, at::ones({2})); }},
      {"all_reduce of some",
       [](const Group& world) { all_reduce(world, at::ones({500})); }},
      {"all_reduce of much", [=](const Group& world) { all_reduce(world, large()); }},
      {"reduce", [=](const Group& world) { reduce(world, large(), 1); }},
      {"reduce_scatter",
       [](const Group& world) {
         reduce_scatter(world, at::ones({40000}), at::ones({40000 * world.size()}));
       }},
      {"broadcast", [=](const Group& world) { broadcast(world, large(), 2); }},
      {"all_gather",
       [](const Group& world) {
         all_gather(world, at::ones({90000 * world.size()}), at::ones({90000}));
       }},
      {"all_to_all",
       [](const Group& world) {
         all_to_all(
             world, at::ones({9000 * world.size()}), at::ones({9000 * world.size()}));
       }},
      {"split", [](const Group& world) { world.split(world.rank() % 2); }}};
}

// Everybody is somewhere in a call when one gives up: inside its host or between hosts.
TEST(HostsEngineRanks, AFailureReachesEveryHostWithItsOrigin) {
  for (const Trial& trial : trials())
    for (int culprit = 0; culprit < 4; ++culprit) {
      SCOPED_TRACE(text(trial.name, ", rank ", culprit, " fails"));
      run_hosts({2, 2}, [&](const Group& world) {
        auto start = std::chrono::steady_clock::now();
        try {
          trial.run(world);
          if (world.rank() == culprit) {
            std::this_thread::sleep_for(milliseconds(5));
            world.abort("the oar is broken");
          }
          start = std::chrono::steady_clock::now();
          for (;;)
            trial.run(world);
        } catch (const PeerError& error) {
          EXPECT_EQ(error.rank(), culprit);
          EXPECT_TRUE(contains(error.what(), "the oar is broken"));
        }
        EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
      });
    }
}

TEST(HostsEngineRanks, WhoDoesNotComeIsNamedWhereverItIs) {
  for (const std::vector<int>& sizes :
       {std::vector{2, 2}, std::vector{3, 1}, std::vector{1, 1, 2}})
    for (int absent = 0; absent < 4; ++absent) {
      SCOPED_TRACE(text(sizes.size(), " hosts, rank ", absent, " does not come"));
      std::atomic<bool> over{false};
      std::atomic<int> left{3};
      run_hosts(sizes, [&](const Group& world) {
        if (world.rank() == absent) {
          while (!over)
            std::this_thread::sleep_for(milliseconds(1));
          EXPECT_THROW(barrier(world), TimeoutError);
          return;
        }
        const std::string what = message_of<TimeoutError>(
            [&] { all_reduce(world, at::ones({3}), {.timeout = milliseconds(300)}); });
        EXPECT_TRUE(contains(what, text("rank ", absent, " did not come")));
        EXPECT_TRUE(contains(what, "all_reduce sum float32[3]"));
        if (--left == 0)
          over = true;
      });
    }
}

TEST(HostsEngineRanks, MismatchesAreFoundInsideAndBetweenHosts) {
  for (int odd = 0; odd < 4; ++odd)
    run_hosts({2, 2}, [odd](const Group& world) {
      for (const int64_t count : {1, 3000, 200000}) {
        const std::string what = message_of<InvalidArgument>([&] {
          all_reduce(world, at::ones({count + (world.rank() == odd ? 1 : 0)}));
        });
        EXPECT_TRUE(contains(
            what,
            text("rank ", odd, " called all_reduce sum float32[", count + 1, "]")));
        at::Tensor one = at::ones({1});
        all_reduce(world, one);
        EXPECT_EQ(one.item<float>(), 4.0F);
      }
    });
}

}  // namespace
}  // namespace trireme::comm
