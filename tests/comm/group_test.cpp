// Handles, the order of calls, and what a group says when its rank goes.
#include "trireme/comm/group.h"

#include <atomic>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "fake_engine.h"
#include "scopes.h"
#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/core/log.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using std::chrono::milliseconds;
using testing::contains;
using testing::LogScope;
using testing::message_of;

std::shared_ptr<FakeEngine> fake(int rank = 2, std::vector<int> members = {4, 5, 9}) {
  return std::make_shared<FakeEngine>(rank, std::move(members));
}

Group group_alone() {
  return Group(LocalWorld(1).join(0, Deadline::after(std::chrono::seconds(5))));
}

// Everything that needs an open group.
std::vector<std::function<void()>> calls_on(const Group& group) {
  return {
      [&] { group.rank(); },
      [&] { group.size(); },
      [&] { group.backend(); },
      [&] { group.members(); },
      [&] { group.options(); },
      [&] { group.split(0); },
      [&] { group.renew(); },
      [&] { group.abort("why"); },
      [&] { group.allocate({1}); },
      [&] { group.engine(); },
      [&] { group.in_order({}, [](const Deadline&) {}); },
      [&] { group.in_order({.async = true}, [](const Deadline&) {}); },
      [&] { barrier(group); }};
}

// ---- handles
// ---------------------------------------------------------------------------

TEST(Group, EmptyHandleSaysWhereGroupsComeFrom) {
  Group empty;
  EXPECT_FALSE(static_cast<bool>(empty));
  for (const auto& call : calls_on(empty))
    EXPECT_EQ(
        message_of<InvalidArgument>(call),
        "[comm] expected a group, got an empty handle; it comes from init(), "
        "run_local() or split() with a colour of zero or more");
  empty.close();
  EXPECT_FALSE(static_cast<bool>(Group(nullptr)));
}

TEST(Group, ClosedHandleRefusesCalls) {
  Group group = group_alone();
  Group copy = group;
  copy.close();
  for (const auto& call : calls_on(group))
    EXPECT_EQ(
        message_of<InvalidArgument>(call),
        "[comm] expected an open group, got one that was closed; call init() or "
        "renew()");
  group.close();
  copy.close();
}

TEST(Group, RefusesATimeoutThatIsNotAboveZero) {
  for (const int ms : {0, -5})
    EXPECT_EQ(
        message_of<InvalidArgument>(
            [&] { Group(fake(), {.timeout = milliseconds(ms)}); }),
        text(
            "[comm] expected a timeout above zero, got ",
            ms,
            " ms; give a longer one"));
}

TEST(Group, CopiesAreTheSameGroup) {
  const auto engine = fake();
  const Group group(engine, {.timeout = milliseconds(77)});
  const Group copy = group;
  EXPECT_TRUE(static_cast<bool>(copy));
  EXPECT_EQ(&copy.engine(), engine.get());
  EXPECT_EQ(&copy.options(), &group.options());
  EXPECT_EQ(copy.rank(), 2);
  EXPECT_EQ(copy.size(), 3);
  EXPECT_EQ(copy.backend(), "fake");
  EXPECT_EQ(copy.members(), (std::vector<int>{4, 5, 9}));
  EXPECT_EQ(copy.options().timeout, milliseconds(77));
}

TEST(Group, LetsGoOfItsEngineWhenClosed) {
  auto engine = fake();
  const std::weak_ptr<FakeEngine> watch = engine;
  Group group(std::move(engine));
  const Group copy = group;
  EXPECT_FALSE(watch.expired());
  group.close();
  EXPECT_TRUE(watch.expired());
}

TEST(Group, PassesItsOptionsToItsParts) {
  const auto engine = fake();
  const Group group(engine, {.timeout = milliseconds(4321)});
  const Group part = group.split(3, -8);
  EXPECT_EQ(engine->splits, (std::vector<std::pair<int, int>>{{3, -8}}));
  EXPECT_EQ(engine->split_allowed, milliseconds(4321));
  EXPECT_EQ(part.options().timeout, milliseconds(4321));
  EXPECT_FALSE(static_cast<bool>(group.split(-1)));
  const Group next = group.renew();
  EXPECT_EQ(next.members(), group.members());
  EXPECT_EQ(next.options().timeout, milliseconds(4321));
}

// ---- the order of calls
// ----------------------------------------------------------------

TEST(Group, RunsACallHereOrOnItsThread) {
  const Group group(fake());
  std::thread::id here, there;
  group.in_order({}, [&](const Deadline&) { here = std::this_thread::get_id(); });
  group
      .in_order(
          {.async = true}, [&](const Deadline&) { there = std::this_thread::get_id(); })
      .wait();
  EXPECT_EQ(here, std::this_thread::get_id());
  EXPECT_NE(there, std::this_thread::get_id());
}

TEST(Group, GivesEveryCallItsDeadline) {
  const Group group(fake(), {.timeout = milliseconds(5000)});
  for (const bool async : {false, true})
    for (const int ms : {0, -1, 1234}) {
      milliseconds allowed{0};
      const auto body = [&](const Deadline& deadline) { allowed = deadline.allowed(); };
      group.in_order({.async = async, .timeout = milliseconds(ms)}, body).wait();
      EXPECT_EQ(allowed, milliseconds(ms > 0 ? ms : 5000));
    }
}

// The clock of an async call starts with it, not while it waits for its turn.
TEST(Group, StartsTheClockWithTheCall) {
  const Group group(fake());
  bool expired = true;
  const Work first = group.in_order({.async = true}, [](const Deadline&) {
    std::this_thread::sleep_for(milliseconds(40));
  });
  group
      .in_order(
          {.async = true, .timeout = milliseconds(35)},
          [&](const Deadline& deadline) { expired = deadline.expired(); })
      .wait();
  EXPECT_FALSE(expired);
}

TEST(Group, CallsOnTheCallerComeAfterQueuedOnes) {
  const Group group(fake());
  std::vector<int> order;
  for (int i = 0; i < 50; ++i) {
    const auto note = [&order, i](const Deadline&) { order.push_back(i); };
    group.in_order({.async = i % 5 != 4}, note);
  }
  ASSERT_EQ(order.size(), 50U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(Group, SeveralThreadsTakeTurns) {
  const Group group(fake());
  int inside = 0, calls = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i)
        group.in_order({.async = i % 3 == 0}, [&](const Deadline&) {
          EXPECT_EQ(++inside, 1);
          ++calls;
          --inside;
        });
    });
  for (std::thread& thread : threads)
    thread.join();
  group.in_order({}, [](const Deadline&) {});
  EXPECT_EQ(calls, 200);
}

TEST(Group, GoesOnAfterAnError) {
  const Group group(fake());
  const auto fail = [](const Deadline&) { throw TimeoutError("[comm] late"); };
  for (int round = 0; round < 3; ++round) {
    EXPECT_THROW(group.in_order({}, fail), TimeoutError);
    const Work work = group.in_order({.async = true}, fail);
    EXPECT_EQ(message_of<TimeoutError>([&] { work.wait(); }), "[comm] late");
  }
}

TEST(Group, ATimeoutShowsTheNoteOfWhoIsMissing) {
  const auto heard = [](const std::string& note) {
    std::string message;
    run_local(
        3,
        [&](const Group& world) {
          if (world.rank() == 2)
            world.set_note("not this one");  // it comes
          if (world.rank() == 1) {
            world.set_note("something longer before");
            world.set_note(note);
            std::this_thread::sleep_for(milliseconds(600));
            return;
          }
          const std::string mine = message_of<TimeoutError>([&] { barrier(world); });
          if (world.rank() == 0)
            message = mine;
        },
        {.timeout = milliseconds(300)});
    return message;
  };
  EXPECT_TRUE(
      contains(heard("reads a \x1b file"), "; rank 1 says: reads a \\x1b file"));
  EXPECT_FALSE(contains(heard(""), "says"));
  EXPECT_TRUE(
      contains(heard(std::string(5000, 'x')), "(TRIREME_TIMEOUT); rank 1 says: xxxx"));
}

TEST(Group, LogsAnErrorThatNobodyWaitedForWithItsRank) {
  const LogScope log;
  {
    std::atomic<bool> forgotten{false};
    const Group group(fake());
    group.in_order({.async = true}, [&](const Deadline&) {
      while (!forgotten)  // so that it is this thread that has it last
        std::this_thread::yield();
      TRIREME_LOG(warn, "comm") << "here";
      throw TimeoutError("[comm] late");
    });
    forgotten = true;
  }
  EXPECT_EQ(
      log.lines(),
      (std::vector<std::string>{
          "[trireme 2/3 comm] warn: here",
          "[trireme 2/3 comm] error: nobody waited for an operation that failed: "
          "[comm] "
          "late"}));
}

TEST(Group, FinishesItsQueueBeforeItCloses) {
  int ran = 0;
  Group group(fake());
  for (int i = 0; i < 20; ++i)
    group.in_order({.async = true}, [&](const Deadline&) { ++ran; });
  group.close();
  EXPECT_EQ(ran, 20);
}

// ---- leaving
// ---------------------------------------------------------------------------

TEST(Group, AbortNamesTheRankInTheWorld) {
  const auto engine = fake();
  Group(engine).abort("the oar is broken");
  EXPECT_EQ(
      engine->aborts,
      std::vector<std::string>{"[comm] rank 9 failed: the oar is broken"});
}

TEST(Group, AnExceptionThatTakesAwayAnIdleOneTellsNobody) {
  const auto engine = fake();
  EXPECT_THROW(
      {
        const Group group(engine);
        const Group copy = group;
        throw std::out_of_range("overboard");
      },
      std::out_of_range);
  EXPECT_TRUE(engine->aborts.empty());
}

TEST(Group, AnExceptionThatTakesAwayABusyOneTellsTheOthers) {
  const auto engine = fake();
  try {
    const Group group(engine);
    group.in_order({.async = true}, [](const Deadline&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    });
    throw std::out_of_range("overboard");
  } catch (const std::out_of_range&) {
  }
  EXPECT_EQ(
      engine->aborts,
      std::vector<std::string>{
          "[comm] rank 9 left a group with work in it by an exception; see its own "
          "output"});
}

TEST(Group, LeavesQuietlyOtherwise) {
  const auto engine = fake();
  { const Group group(engine); }
  try {
    Group group(engine);
    group.close();
    throw std::out_of_range("after closing");
  } catch (const std::out_of_range&) {
  }
  const Group outer(engine);
  try {
    const Group copy = outer;  // not the last handle
    throw std::out_of_range("inside");
  } catch (const std::out_of_range&) {
  }
  EXPECT_EQ(engine->aborts, std::vector<std::string>{});
}

// A group that was made while an exception was on its way already has nothing to tell.
TEST(Group, LeavesQuietlyWhenItWasMadeDuringUnwinding) {
  struct Cleaner {
    explicit Cleaner(std::shared_ptr<FakeEngine> its_engine)
        : engine(std::move(its_engine)) {}
    ~Cleaner() { const Group group(engine); }
    std::shared_ptr<FakeEngine> engine;
  };
  const auto engine = fake();
  try {
    const Cleaner cleaner(engine);
    throw std::out_of_range("overboard");
  } catch (const std::out_of_range&) {
  }
  EXPECT_EQ(engine->aborts, std::vector<std::string>{});
}

/// An engine whose calls last until the test says so, and which tells when it goes.
class SlowEngine : public FakeEngine {
 public:
  SlowEngine(std::atomic<bool>& inside, std::atomic<bool>& go, std::atomic<bool>& gone)
      : FakeEngine(0, 1), inside_(inside), go_(go), gone_(gone) {}
  ~SlowEngine() override { gone_ = true; }
  at::Tensor allocate(at::IntArrayRef, const at::TensorOptions&) override {
    linger();
    return {};
  }
  void abort(const std::string&) noexcept override { linger(); }
  void set_note(const std::string&) noexcept override { linger(); }
  std::unique_ptr<SendPort> open_send(
      int to, int tag, const ChannelOptions& options) override {
    linger();
    return FakeEngine::open_send(to, tag, options);
  }

 private:
  void linger() {
    inside_ = true;
    const Deadline deadline = Deadline::after(std::chrono::seconds(20));
    while (!go_ && !deadline.expired())
      std::this_thread::yield();
    EXPECT_FALSE(gone_);
  }
  std::atomic<bool>&inside_, &go_, &gone_;
};

// Whoever has begun a call that takes no turn keeps the engine until it ends.
TEST(Group, MayBeClosedWhileAnotherThreadCallsIt) {
  const std::vector<std::function<void(const Group&)>> calls = {
      [](const Group& group) { group.abort("why"); },
      [](const Group& group) { group.set_note("here"); },
      [](const Group& group) { group.allocate({1}); },
      [](const Group& group) {
        Channel(group, {0, 0});
      }};
  for (const auto& call : calls) {
    std::atomic<bool> inside{false}, go{false}, gone{false};
    Group group(std::make_shared<SlowEngine>(inside, go, gone));
    std::thread caller([&] { call(group); });
    while (!inside)
      std::this_thread::yield();
    group.close();
    EXPECT_THROW(group.rank(), InvalidArgument);
    EXPECT_FALSE(gone);
    go = true;
    caller.join();
    EXPECT_TRUE(gone);
  }
}

// What a rank is does not change: it may be asked while another thread closes.
TEST(Group, MayBeAskedWhileAnotherThreadCloses) {
  for (int round = 0; round < 50; ++round) {
    Group group = group_alone();
    std::atomic<bool> started{false};
    std::thread asker([&] {
      try {
        for (;;) {
          EXPECT_EQ(group.rank(), 0);
          EXPECT_EQ(group.size(), 1);
          EXPECT_EQ(group.members().size(), 1U);
          EXPECT_EQ(group.backend(), "none");
          group.set_note("still here");
          started = true;
        }
      } catch (const InvalidArgument&) {
        started = true;
      }
    });
    while (!started)
      std::this_thread::yield();
    group.close();
    asker.join();
  }
}

// ---- devices and memory
// ----------------------------------------------------------------

TEST(Group, HasNoEngineForOtherDevices) {
  const Group group(fake());
  EXPECT_EQ(
      message_of<NotSupported>([&] { group.engine(c10::DeviceType::CUDA); }),
      "[comm] expected CPU tensors, got CUDA: this build has no engine for them; build "
      "with NCCL, or move them to the CPU");
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { group.engine(c10::DeviceType::Meta); }),
      "[comm] expected tensors on the CPU, got meta; move them there first");
  EXPECT_THROW(group.allocate({2}, at::kCUDA), NotSupported);
  EXPECT_THROW(group.allocate({2}, at::kMeta), InvalidArgument);
}

TEST(Group, AllocatesWhatWasAskedFor) {
  const Group group = group_alone();
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kLong, at::kBool}) {
    at::Tensor tensor = group.allocate({2, 3, 4}, dtype);
    EXPECT_EQ(tensor.scalar_type(), dtype);
    EXPECT_EQ(tensor.sizes(), at::IntArrayRef({2, 3, 4}));
    EXPECT_TRUE(tensor.is_contiguous());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data_ptr()) % 64, 0U);
    tensor.fill_(1);
    EXPECT_EQ(tensor.sum().item<int>(), 24);
  }
  EXPECT_EQ(group.allocate({5}).scalar_type(), at::kFloat);
  EXPECT_EQ(group.allocate({}).numel(), 1);
  EXPECT_EQ(group.allocate({0}).numel(), 0);
  EXPECT_EQ(group.allocate({3, 0, 2}).sizes(), at::IntArrayRef({3, 0, 2}));
}

TEST(Group, RefusesSizesThatCannotBe) {
  const Group group = group_alone();
  constexpr int64_t huge = int64_t{1} << 62;
  const std::string wanted = "[comm] expected sizes that fit into memory, got ";
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { group.allocate({-1}); }),
      wanted + "[-1]; correct them");
  EXPECT_EQ(
      message_of<InvalidArgument>([&] {
        group.allocate({0, -3});
      }),
      wanted + "[0, -3]; correct them");
  EXPECT_EQ(
      message_of<InvalidArgument>([&] {
        group.allocate({huge, 2}, at::kLong);
      }),
      wanted + text("[", huge, ", 2]; correct them"));
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { group.allocate({huge}, at::kLong); }),
      wanted + text("[", huge, "]; correct them"));
}

TEST(Group, MemoryOutlivesIt) {
  at::Tensor kept;
  {
    Group group = group_alone();
    kept = group.allocate({1000}, at::kInt);
    kept.fill_(7);
    group.close();
  }
  EXPECT_EQ(kept.sum().item<int>(), 7000);
}

// ---- with other ranks
// ------------------------------------------------------------------

// A rank whose function is left by an exception, without anybody to catch it there.
TEST(GroupRanks, AnExceptionOfOneIsAPeerErrorOfTheOthers) {
  const LocalWorld world(3);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.emplace_back([&world, rank] {
      const auto join = [&] {
        return Group(world.join(rank, Deadline::after(std::chrono::seconds(20))));
      };
      if (rank == 1) {
        EXPECT_THROW(
            {
              const Group group = join();
              throw std::out_of_range("overboard");
            },
            std::out_of_range);
        return;
      }
      const Group group = join();
      try {
        barrier(group, {.timeout = std::chrono::seconds(20)});
        ADD_FAILURE() << "no error on rank " << rank;
      } catch (const PeerError& error) {
        EXPECT_EQ(error.rank(), 1);
        EXPECT_EQ(
            std::string(error.what()),
            "[comm] rank 1 left its world by an exception; see its own output");
      }
    });
  for (std::thread& rank : ranks)
    rank.join();
}

// The thread of a group must not go on waiting for ranks that its own rank let down.
TEST(GroupRanks, AnExceptionEndsQueuedCalls) {
  const LogScope log;
  const LocalWorld world(2);
  std::vector<std::thread> ranks;
  const auto start = std::chrono::steady_clock::now();
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&world, rank] {
      EXPECT_THROW(
          {
            const Group group(
                world.join(rank, Deadline::after(std::chrono::seconds(20))));
            if (rank == 0)
              throw std::out_of_range("overboard");
            barrier(group, {.async = true}).wait();
          },
          std::exception);
    });
  for (std::thread& rank : ranks)
    rank.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

}  // namespace
}  // namespace trireme::comm
