#include "trireme/comm/shared/shared_engine.h"

#include <atomic>
#include <mutex>
#include <set>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "staged_world.h"
#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::comm {
namespace {

TEST(SharedEngineRanks, GivesMemoryThatIsAlignedAndComesBack) {
  testing::run_world(testing::Backend::ShmThreads, 2, [](const Group& world) {
    void* first = nullptr;
    for (int i = 0; i < 20; ++i) {
      const at::Tensor x = world.allocate({3, 1000}, at::kBFloat16);
      EXPECT_EQ(x.sizes(), at::IntArrayRef({3, 1000}));
      EXPECT_EQ(x.scalar_type(), at::kBFloat16);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data_ptr()) % 64, 0U);
      if (i == 0)
        first = x.data_ptr();
      EXPECT_EQ(x.data_ptr(), first);
    }
    EXPECT_THROW(world.allocate({-1}), InvalidArgument);
    EXPECT_THROW(world.allocate({1L << 40, 1L << 40}), InvalidArgument);
  });
}

TEST(SharedEngineRanks, MemoryOutlivesTheWorld) {
  at::Tensor kept;
  testing::run_world(testing::Backend::ShmThreads, 1, [&](const Group& world) {
    kept = world.allocate({100}, at::kFloat);
    kept.fill_(3);
  });
  EXPECT_EQ(kept.sum().item<float>(), 300.0F);
}

// A split that took new memory for every group would run through the segment.
TEST(SharedEngineRanks, SplitsUseTheirMemoryAgain) {
  testing::run_world(testing::Backend::ShmThreads, 2, [](const Group& world) {
    std::byte* first = nullptr;
    for (int i = 0; i < 50; ++i) {
      Group part = world.split(0);
      barrier(part);
      part.close();
      barrier(world);
      const at::Tensor probe = world.allocate({1 << 20}, at::kByte);
      auto* place = static_cast<std::byte*>(probe.data_ptr());
      if (i == 0)
        first = place;
      // Fifty times four mebibytes of staging would have pushed it further.
      EXPECT_LT(std::abs(place - first), 64 << 20);
    }
  });
}

TEST(SharedEngineRanks, RenewingUsesItsMemoryAgain) {
  testing::run_world(testing::Backend::ShmThreads, 2, [](const Group& world) {
    Group group = world;
    std::byte* first = nullptr;
    for (int i = 0; i < 30; ++i) {
      if (group.rank() == 0)
        group.abort("again");
      EXPECT_THROW(barrier(group), PeerError);
      group = group.renew();
      barrier(group);
      const at::Tensor probe = group.allocate({1 << 20}, at::kByte);
      auto* place = static_cast<std::byte*>(probe.data_ptr());
      if (i == 0)
        first = place;
      EXPECT_LT(std::abs(place - first), 64 << 20);
      barrier(group);
    }
  });
}

// Ninety messages of two mebibytes would run through the segment.
TEST(SharedEngineRanks, AGenerationIsRenewedOnce) {
  testing::run_world(testing::Backend::Local, 2, [](const Group& world) {
    const Group next = world.renew();
    EXPECT_THROW(world.renew(), InvalidArgument);
    const Group last = next.renew();
    EXPECT_THROW(world.renew(), InvalidArgument);
    barrier(last);
  });
}

// A peer may still be writing into it, until all have come to the next generation.
TEST(SharedEngineRanks, MemoryOfAStoppedWorldIsKeptUntilItIsRenewed) {
  testing::run_world(testing::Backend::ShmThreads, 2, [](const Group& world) {
    void* first = world.allocate({1000}, at::kFloat).data_ptr();
    EXPECT_EQ(world.allocate({1000}, at::kFloat).data_ptr(), first);
    at::Tensor held = world.allocate({1000}, at::kFloat);
    barrier(world);
    if (world.rank() == 0)
      world.abort("a test");
    EXPECT_THROW(barrier(world), PeerError);
    held.reset();
    EXPECT_NE(world.allocate({1000}, at::kFloat).data_ptr(), first);
    Group next = world.renew();
    barrier(next);
  });
}

TEST(SharedEngineRanks, RenewingFreesWhatNobodyReceived) {
  testing::run_world(testing::Backend::ShmThreads, 2, [](const Group& world) {
    Group group = world;
    at::Tensor held;
    std::byte* first = nullptr;
    for (int i = 0; i < 30; ++i) {
      {
        const Channel edge(group, {0, 1});
        for (int k = 0; group.rank() == 0 && k < 3; ++k)
          edge.send({.tensors = {at::full({2 << 20}, i, at::kByte)}});
        if (group.rank() == 1 && i == 0)
          held = edge.receive().tensors[0];
      }
      barrier(group);
      group = group.renew();
      // Too large for what other messages or a staging leave free between them.
      const at::Tensor probe = group.allocate({16 << 20}, at::kByte);
      auto* place = static_cast<std::byte*>(probe.data_ptr());
      if (i == 0)
        first = place;
      EXPECT_LT(std::abs(place - first), 64 << 20);
    }
    if (group.rank() == 1) {
      EXPECT_TRUE(testing::same(held, at::zeros({2 << 20}, at::kByte)));
    }
  });
}

/// Private memory that knows how many large blocks are out: here those of messages.
class CountingHeap : public PrivateHeap {
 public:
  static constexpr size_t kLarge = size_t{1} << 20;
  uint64_t allocate(size_t bytes) override {
    const uint64_t offset = PrivateHeap::allocate(bytes);
    std::lock_guard lock(mutex_);
    if (bytes >= kLarge)
      large_.insert(offset);
    return offset;
  }
  void release(uint64_t offset) override {
    {
      std::lock_guard lock(mutex_);
      large_.erase(offset);
    }
    PrivateHeap::release(offset);
  }
  size_t large() {
    std::lock_guard lock(mutex_);
    return large_.size();
  }

 private:
  std::mutex mutex_;
  std::set<uint64_t> large_;
};

TEST(SharedEngineRanks, RenewingFreesAChannelOnlyWhenNobodyHoldsAPartOfIt) {
  const auto memory = std::make_shared<CountingHeap>();
  const auto body = [&memory](SharedEngine& engine) {
    const auto meet = [](Engine& with) {
      with.run({.kind = CollectiveKind::Barrier}, in_time());
    };
    const at::Tensor x = at::arange(CountingHeap::kLarge / 8);
    std::unique_ptr<ReceivePort> receiver;
    std::vector<at::Tensor> held;
    for (int tag = 0; engine.rank() == 0 && tag < 2; ++tag) {
      const auto sender = engine.open_send(1, tag, {});
      for (int i = 0; i < 3; ++i)
        sender->send({.tensors = {x}}, in_time());
    }
    meet(engine);  // what comes back earlier would be used again
    if (engine.rank() == 1) {
      // Of one channel a tensor outlives the renewal, of the other the receiver.
      held = engine.open_receive(0, 0)->receive(in_time()).tensors;
      receiver = engine.open_receive(0, 1);
      receiver->receive(in_time());
    }
    meet(engine);
    const auto next = engine.renew(in_time());
    const auto expect_large = [&](size_t count) {
      meet(*next);
      memory->reclaim();
      EXPECT_EQ(memory->large(), count);
      meet(*next);
    };
    expect_large(6);
    if (receiver) {
      EXPECT_THROW(receiver->receive(in_time()), PeerError);
    }
    receiver.reset();
    expect_large(3);
    if (engine.rank() == 1) {
      EXPECT_TRUE(testing::same(held.at(0), x));
    }
    held.clear();
    expect_large(0);
  };
  run_staged(2, body, {.memory = memory});
}

// Between threads a message is the sender's own tensor.
TEST(SharedEngineRanks, RenewingLetsGoOfTensorsThatNobodyReceived) {
  testing::run_world(testing::Backend::Local, 2, [](const Group& world) {
    const at::Tensor x = at::ones({3});
    if (world.rank() == 0)
      Channel(world, {0, 1}).send({.tensors = {x}});
    barrier(world);
    EXPECT_EQ(x.storage().use_count(), world.rank() == 0 ? 2U : 1U);
    barrier(world);
    const Group next = world.renew();
    EXPECT_EQ(x.storage().use_count(), 1U);
  });
}

// The end of an old generation must not touch what the new one has yet to free.
TEST(SharedEngineRanks, AnOldGenerationMayEndAtAnyTime) {
  for (const auto backend : {testing::Backend::Local, testing::Backend::ShmThreads})
    testing::run_world(backend, 2, [](const Group& world) {
      Group old = world.renew();
      const Group group = old.renew();
      if (group.rank() == 0)
        Channel(group, {0, 1}).send({.header = {.word = 1}});
      barrier(group);
      old.close();
      barrier(group);
      if (group.rank() == 1) {
        EXPECT_EQ(Channel(group, {0, 1}).receive().header.word, 1);
      }
      barrier(group);
      const Channel again(group, {0, 1});
      if (group.rank() == 0)
        again.send({.header = {.word = 2}});
      else
        EXPECT_EQ(again.receive().header.word, 2);
    });
}

// Two groups with one name would share their channels. By hashing, these two had.
TEST(SharedEngineRanks, GroupsNeverShareAName) {
  testing::run_world(testing::Backend::Local, 1, [](const Group& world) {
    std::vector<Group> groups;
    std::vector<Channel> channels;
    for (int split = 1; split <= 2458; ++split) {
      const int color = split == 1057 ? 87 : split == 2458 ? 2 : -1;
      if (Group part = world.split(color))
        groups.push_back(part);
    }
    for (const Group& group : groups)
      EXPECT_NO_THROW(channels.emplace_back(group, Edge{0, 0}));
    EXPECT_EQ(channels.size(), 2U);
  });
}

TEST(SharedEngineRanks, ASplitFailsOnAllRanksWhereOneHasNoMemory) {
  run_staged(
      3,
      [](SharedEngine& engine) {
        const auto meet = [&] {
          engine.run({.kind = CollectiveKind::Barrier}, in_time());
        };
        // Rank 0 leads the new group, and so asks for its control block first.
        for (const auto& [rank, request] :
             std::vector<std::pair<int, int>>{{0, 1}, {0, 2}, {1, 1}, {2, 1}}) {
          if (engine.rank() == rank)
            RefusingHeap::refuse_at = request;
          const std::string what = testing::message_of<InvalidArgument>(
              [&] { engine.split(0, 0, Deadline::after(std::chrono::seconds(5))); });
          EXPECT_TRUE(testing::contains(
              what, engine.rank() == rank ? "got none" : text("rank ", rank)));
          EXPECT_EQ(RefusingHeap::refuse_at, 0);
          meet();  // nobody was harmed
          const auto part = engine.split(0, 0, in_time());
          part->run({.kind = CollectiveKind::Barrier}, in_time());
          meet();
        }
      },
      {.memory = std::make_shared<RefusingHeap>()});
}

/// Memory that one rank (a thread) waits for.
class SlowHeap : public PrivateHeap {
 public:
  uint64_t allocate(size_t bytes) override {
    std::this_thread::sleep_for(delay);
    return PrivateHeap::allocate(bytes);
  }
  static inline thread_local std::chrono::milliseconds delay{0};
};

TEST(SharedEngineRanks, ASplitThatTimesOutSaysWhichGroupItIsFor) {
  run_staged(
      3,
      [](SharedEngine& engine) {
        const bool late = engine.rank() == 2;
        if (late)
          SlowHeap::delay = std::chrono::milliseconds(600);
        const auto split = [&] {
          const auto part = engine.split(
              engine.rank() == 1 ? -1 : 0,
              0,
              Deadline::after(std::chrono::milliseconds(200)));
        };
        if (engine.rank() == 0) {
          EXPECT_TRUE(testing::contains(
              testing::message_of<TimeoutError>(split),
              "expected 2 ranks at the start of the group of ranks 0 and 2 within 200 "
              "ms, but rank 2 did not come"));
        } else if (late) {
          EXPECT_THROW(split(), TimeoutError);
        } else {
          split();
        }
        SlowHeap::delay = {};
      },
      {.memory = std::make_shared<SlowHeap>()});
}

TEST(SharedEngineRanks, ASplitWithoutARankSaysWhoIsMissingAndWhere) {
  std::atomic<bool> over{false};
  run_staged(2, [&over](SharedEngine& engine) {
    if (engine.rank() == 1) {
      EXPECT_TRUE(eventually([&] { return over.load(); }));
      return;
    }
    EXPECT_TRUE(testing::contains(
        testing::message_of<TimeoutError>([&] {
          engine.split(0, 0, Deadline::after(std::chrono::milliseconds(30)));
        }),
        "expected 2 ranks at split (step 2 of the world) within 30 ms, but rank 1 did "
        "not come"));
    over = true;
  });
}

TEST(SharedEngineRanks, ARenewalCanBeTriedAgain) {
  for (const int early : {0, 1, 2}) {
    std::atomic<bool> gave_up{false};
    run_staged(3, [&](SharedEngine& engine) {
      if (engine.rank() == early) {
        EXPECT_TRUE(testing::contains(
            testing::message_of<TimeoutError>(
                [&] { engine.renew(Deadline::after(std::chrono::milliseconds(30))); }),
            "did not come"));
        gave_up = true;
      }
      ASSERT_TRUE(eventually([&] { return gave_up.load(); }));
      const auto next = engine.renew(in_time());
      next->run({.kind = CollectiveKind::Barrier}, in_time());
      EXPECT_THROW(engine.renew(in_time()), InvalidArgument);
    });
  }
}

// The one that gave up comes back late: until then the others wait, and go on with it.
TEST(SharedEngineRanks, ARenewalWaitsForWhoGaveUpBefore) {
  for (const int early : {0, 1}) {
    std::atomic<bool> gave_up{false};
    run_staged(2, [&](SharedEngine& engine) {
      if (engine.rank() == early) {
        EXPECT_THROW(
            engine.renew(Deadline::after(std::chrono::milliseconds(30))), TimeoutError);
        gave_up = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
      }
      ASSERT_TRUE(eventually([&] { return gave_up.load(); }));
      const auto next = engine.renew(in_time());
      next->run({.kind = CollectiveKind::Barrier}, in_time());
    });
  }
}

TEST(SharedEngineRanks, ARenewalThatFailedForWantOfMemoryCanBeTriedAgain) {
  run_staged(
      2,
      [](SharedEngine& engine) {
        if (engine.rank() == 1)
          RefusingHeap::refuse_at = 1;  // its staging in the next generation
        EXPECT_THROW(
            engine.renew(Deadline::after(std::chrono::seconds(5))), InvalidArgument);
        const auto next = engine.renew(in_time());
        next->run({.kind = CollectiveKind::Barrier}, in_time());
      },
      {.memory = std::make_shared<RefusingHeap>()});
}

/// One call of each kind, with tensors that go with it.
void call_each_kind(const Group& world, int64_t count, bool reachable) {
  const auto make = [&](int64_t n) {
    return reachable ? world.allocate({n}).fill_(1) : at::ones({n});
  };
  const int64_t size = world.size();
  const auto parts = [&](bool wanted) {
    std::vector<at::Tensor> tensors;
    for (int64_t k = 0; wanted && k < size; ++k)
      tensors.push_back(make(count));
    return tensors;
  };
  const bool root = world.rank() == 1;
  all_reduce(world, make(count));
  reduce(world, make(count), 1);
  reduce_scatter(world, make(count), make(count * size));
  broadcast(world, make(count), 1);
  all_gather(world, make(count * size), make(count));
  all_to_all(world, make(count * size), make(count * size));
  all_to_all(world, parts(true), parts(true));
  gather(world, parts(root), make(count), 1);
  scatter(world, make(count), parts(root), 1);
  std::vector<at::Tensor> gathered;
  all_gather_uneven(world, gathered, make(count + world.rank()));
  // From rank a to rank b go count + a + 2 b elements.
  std::vector<at::Tensor> give, take;
  for (int64_t k = 0; k < size; ++k) {
    give.push_back(make(count + world.rank() + 2 * k));
    take.push_back(make(count + k + 2 * world.rank()));
  }
  all_to_all(world, take, give);
  barrier(world.split(world.rank() % 2));
}

// Every tensor dies as soon as its call has ended, well or not, and the sizes lead
// through every algorithm: AddressSanitizer finds who is still in one of them.
TEST(SharedEngineRanks, AnAbortAtAnyMomentLeavesNobodyInFreedMemory) {
  for (const auto backend : {testing::Backend::Local, testing::Backend::ShmThreads})
    for (int round = 0; round < 24; ++round)
      testing::run_world(backend, 2 + round % 2, [round](const Group& world) {
        barrier(world);
        std::thread aborter;
        if (world.rank() == 0)
          aborter = std::thread([&world, round] {
            std::this_thread::sleep_for(std::chrono::microseconds(round * 700));
            world.abort("a test");
          });
        EXPECT_THROW(
            {
              const Deadline deadline = in_time();
              while (!deadline.expired())
                for (const int64_t count : {3, 4000, 200000})
                  call_each_kind(world, count, round % 4 < 2);
            },
            PeerError);
        if (aborter.joinable())
          aborter.join();
      });
}

TEST(SharedEngineRanks, GivesEmptyTensorsAndRefusesImpossibleOnes) {
  testing::run_world(testing::Backend::ShmThreads, 1, [](const Group& world) {
    EXPECT_EQ(world.allocate({0, 5}).numel(), 0);
    EXPECT_THROW(world.allocate({0, 1L << 62, 1L << 62}), InvalidArgument);
  });
}

TEST(SharedEngineRanks, RecordsItsCalls) {
  run_staged(2, [](SharedEngine& engine) {
    EXPECT_EQ(engine.backend(), "staged");
    EXPECT_EQ(engine.members(), (std::vector<int>{0, 1}));
    EXPECT_NO_THROW(engine.check());
    engine.run({.kind = CollectiveKind::Barrier}, in_time());
  });
}

}  // namespace
}  // namespace trireme::comm
