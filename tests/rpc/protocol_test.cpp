#include "trireme/rpc/protocol.h"

#include <optional>

#include <gtest/gtest.h>

#include "trireme/testing/rpc_fabric.h"

namespace trireme::rpc {
namespace {

using std::chrono::milliseconds;

// Two workers; what comes in at either is kept for the test to answer.
struct CallingPair {
  explicit CallingPair(
      ProtocolOptions options =
          {.link = {.lease = milliseconds(1000), .resend = milliseconds(50)},
           .calls_per_worker = 4})
      : fabric(1, 2, std::move(options), [this](WorkerId me, Incoming call) {
          if (call.full)
            fabric.respond(me, call, Status::Full, {});
          else
            incoming.push_back(std::move(call));
        }) {}

  std::uint64_t call(WorkerId from, WorkerId to, Request request = {}) {
    ends.emplace_back();
    return fabric.call(
        from, to, std::move(request), [this, at = ends.size() - 1](Outcome end) {
          EXPECT_FALSE(ends[at]) << "it ended twice";
          ends[at] = std::move(end);
        });
  }
  Request saying(std::string bytes) {
    Request request;
    request.payload.bytes = std::move(bytes);
    return request;
  }
  void answer(WorkerId me, const std::string& bytes, Status status = Status::Value) {
    Payload payload;
    payload.bytes = bytes;
    fabric.respond(me, incoming.at(0), status, std::move(payload));
    incoming.erase(incoming.begin());
  }
  bool cancelled(std::size_t at) {
    return std::static_pointer_cast<testing::TestToken>(incoming.at(at).token)
        ->cancelled;
  }

  std::vector<Incoming> incoming;
  std::vector<std::optional<Outcome>> ends;
  testing::Fabric fabric;
};

TEST(Protocol, ACallIsAnswered) {
  CallingPair pair;
  pair.call(0, 1, pair.saying("question"));
  pair.fabric.run_for(milliseconds(20));
  ASSERT_EQ(pair.incoming.size(), 1u);
  EXPECT_EQ(pair.incoming[0].payload.bytes, "question");
  EXPECT_EQ(pair.incoming[0].from, 0);
  EXPECT_EQ(pair.fabric.protocol(0).waiting(1), 1u);
  EXPECT_EQ(pair.fabric.protocol(1).running(), 1u);
  pair.answer(1, "answer", Status::Failed);
  pair.fabric.run_for(milliseconds(20));
  ASSERT_TRUE(pair.ends[0]);
  EXPECT_EQ(pair.ends[0]->status, Status::Failed);
  EXPECT_EQ(pair.ends[0]->payload.bytes, "answer");
  EXPECT_EQ(pair.fabric.protocol(0).waiting(), 0u);
  EXPECT_EQ(pair.fabric.protocol(1).running(), 0u);
}

TEST(Protocol, AWorkerMayCallItself) {
  CallingPair pair;
  Request request = pair.saying("question");
  Reference mine = pair.fabric.own(0);
  request.payload.references = {mine};
  pair.call(0, 0, std::move(request));
  ASSERT_EQ(pair.incoming.size(), 1u) << "at once, without a network";
  EXPECT_EQ(pair.incoming[0].payload.references[0].hold(), mine.hold());
  pair.answer(0, "answer");
  ASSERT_TRUE(pair.ends[0]);
  EXPECT_EQ(pair.ends[0]->payload.bytes, "answer");
}

TEST(Protocol, CallsToItselfAreLateAndCancelledLikeOthers) {
  CallingPair pair;
  Request request;
  request.deadline = pair.fabric.now() + milliseconds(50);
  pair.call(0, 0, std::move(request));
  const std::uint64_t second = pair.call(0, 0);
  pair.fabric.protocol(0).cancel(second, pair.fabric.now());
  pair.fabric.settle(0);
  EXPECT_EQ(pair.ends[1]->status, Status::Cancelled);
  pair.fabric.run_for(milliseconds(49));
  EXPECT_FALSE(pair.ends[0]);
  pair.fabric.run_for(milliseconds(2));
  ASSERT_TRUE(pair.ends[0]);
  EXPECT_EQ(pair.ends[0]->status, Status::Late);
  EXPECT_TRUE(pair.cancelled(0));
  EXPECT_TRUE(pair.cancelled(1));
  pair.answer(0, "too late");
  pair.answer(0, "too late");
  EXPECT_EQ(pair.fabric.protocol(0).running(), 0u);
}

TEST(Protocol, ADeadlineTravelsAndIsKept) {
  CallingPair pair;
  Request request;
  request.deadline = pair.fabric.now() + milliseconds(100);
  pair.call(0, 1, std::move(request));
  pair.fabric.run_for(milliseconds(20));
  ASSERT_EQ(pair.incoming.size(), 1u);
  EXPECT_GT(pair.incoming[0].deadline, pair.fabric.now() + milliseconds(50));
  EXPECT_LT(pair.incoming[0].deadline, pair.fabric.now() + milliseconds(110));
  pair.fabric.run_for(milliseconds(100));
  ASSERT_TRUE(pair.ends[0]);
  EXPECT_EQ(pair.ends[0]->status, Status::Late);
  EXPECT_TRUE(pair.cancelled(0)) << "the callee hears that nobody waits";
}

TEST(Protocol, ACancelledCallIsCancelledOnTheOtherSide) {
  CallingPair pair;
  const std::uint64_t call = pair.call(0, 1);
  pair.fabric.run_for(milliseconds(20));
  pair.fabric.protocol(0).cancel(call, pair.fabric.now());
  pair.fabric.settle(0);
  ASSERT_TRUE(pair.ends[0]) << "nobody waits for the other side";
  EXPECT_EQ(pair.ends[0]->status, Status::Cancelled);
  pair.fabric.run_for(milliseconds(20));
  EXPECT_TRUE(pair.cancelled(0));
}

TEST(Protocol, ACancellationMayOvertakeItsCall) {
  CallingPair pair;
  pair.call(0, 1);
  pair.fabric.run_for(milliseconds(20));
  pair.answer(1, "");
  pair.fabric.run_for(milliseconds(20));
  pair.fabric.set_faults({.drop = 1});
  const std::uint64_t call = pair.call(0, 1);  // this packet is lost
  pair.fabric.set_faults({});
  pair.fabric.protocol(0).cancel(call, pair.fabric.now());
  pair.fabric.settle(0);
  pair.fabric.run_for(milliseconds(500));  // it is sent again
  EXPECT_EQ(pair.incoming.size(), 0u);
  EXPECT_EQ(pair.fabric.protocol(0).unsent(), 0u);
}

// Its name needs a place, so it is run all the same; but it hears that nobody waits.
TEST(Protocol, ACancellationMayOvertakeACallThatMakesAValue) {
  CallingPair pair;
  pair.call(0, 1);
  pair.fabric.run_for(milliseconds(20));
  pair.answer(1, "");
  pair.fabric.run_for(milliseconds(20));
  Request request;
  request.creates = pair.fabric.protocol(0).name(1);
  pair.fabric.set_faults({.drop = 1});
  const std::uint64_t call = pair.call(0, 1, std::move(request));
  pair.fabric.set_faults({});
  pair.fabric.protocol(0).cancel(call, pair.fabric.now());
  pair.fabric.settle(0);
  pair.fabric.run_for(milliseconds(500));
  ASSERT_EQ(pair.incoming.size(), 1u);
  EXPECT_TRUE(pair.cancelled(0));
  EXPECT_EQ(pair.fabric.protocol(1).running(), 1u);
}

TEST(Protocol, ACallThatWaitedForANameHasNoMoreTimeThanItsCallerGives) {
  CallingPair pair;
  Request making;
  making.creates = pair.fabric.protocol(0).name(1);
  Request using_it;
  using_it.payload.references = {making.creates};
  using_it.deadline = pair.fabric.now() + milliseconds(900);
  const Time until = using_it.deadline;
  pair.fabric.cut(0, 1);
  pair.call(0, 1, std::move(making));
  pair.call(0, 1, std::move(using_it));
  pair.fabric.run_for(milliseconds(400));
  pair.fabric.heal();
  pair.fabric.run_for(milliseconds(400));
  ASSERT_EQ(pair.incoming.size(), 2u);
  EXPECT_LE(pair.incoming[1].deadline, until + milliseconds(50));
}

TEST(Protocol, ActivityCountsFromNothing) {
  CallingPair pair;
  EXPECT_EQ(pair.fabric.protocol(0).activity(), 0u);
  pair.call(0, 1);
  const std::uint64_t once = pair.fabric.protocol(0).activity();
  EXPECT_GT(once, 0u);
  pair.call(0, 0);
  EXPECT_GT(pair.fabric.protocol(0).activity(), once);
}

TEST(Protocol, MoreCallsThanAWorkerMayRunAreTurnedAway) {
  CallingPair pair;
  for (int i = 0; i < 6; ++i)
    pair.call(0, 1);
  pair.fabric.run_for(milliseconds(50));
  EXPECT_EQ(pair.incoming.size(), 4u);
  int full = 0;
  for (const auto& end : pair.ends)
    full += end && end->status == Status::Full;
  EXPECT_EQ(full, 2);
  pair.answer(1, "");
  pair.call(0, 1);
  pair.fabric.run_for(milliseconds(50));
  EXPECT_EQ(pair.incoming.size(), 4u) << "there is room again";
}

TEST(Protocol, MoreBytesThanAWorkerMayQueueAreTurnedAway) {
  CallingPair pair(
      {.link = {.lease = milliseconds(1000), .resend = milliseconds(50)},
       .bytes_per_worker = 1000});
  const auto call = [&] { pair.call(0, 1, pair.saying(std::string(600, 'x'))); };
  for (int i = 0; i < 3; ++i)
    call();
  pair.fabric.run_for(milliseconds(50));
  EXPECT_EQ(pair.incoming.size(), 2u) << "one that begins below the limit is taken";
  pair.answer(1, "");
  pair.answer(1, "");
  pair.fabric.run_for(milliseconds(50));
  int full = 0;
  for (const auto& end : pair.ends)
    full += end && end->status == Status::Full;
  EXPECT_EQ(full, 1);
  call();
  pair.fabric.run_for(milliseconds(50));
  EXPECT_EQ(pair.incoming.size(), 1u) << "there is room again";
}

TEST(Protocol, CallsToAWorkerThatHasGoneEndAtOnce) {
  CallingPair pair;
  pair.call(0, 1);
  pair.fabric.run_for(milliseconds(20));
  pair.fabric.kill(1);
  pair.fabric.tell_gone(1);
  ASSERT_TRUE(pair.ends[0]);
  EXPECT_EQ(pair.ends[0]->status, Status::Lost);
  EXPECT_EQ(pair.ends[0]->why, "its process has ended");
  pair.call(0, 1);
  ASSERT_TRUE(pair.ends[1]);
  EXPECT_EQ(pair.ends[1]->status, Status::Lost);
  EXPECT_EQ(pair.fabric.protocol(0).gone(1), "its process has ended");
}

TEST(Protocol, OnlyIdempotentCallsAreSentAgainToAWorkerThatWasStartedAnew) {
  CallingPair pair;
  pair.call(0, 1, pair.saying("once"));
  Request twice = pair.saying("twice");
  twice.idempotent = true;
  pair.call(0, 1, std::move(twice));
  pair.fabric.run_for(milliseconds(20));
  ASSERT_EQ(pair.incoming.size(), 2u);
  pair.incoming.clear();
  pair.fabric.kill(1);
  pair.fabric.restart(1);
  pair.fabric.run_for(milliseconds(5000));
  ASSERT_TRUE(pair.ends[0]);
  EXPECT_EQ(pair.ends[0]->status, Status::Lost);
  EXPECT_FALSE(pair.ends[1]);
  ASSERT_EQ(pair.incoming.size(), 1u);
  EXPECT_EQ(pair.incoming[0].payload.bytes, "twice");
  pair.answer(1, "done");
  pair.fabric.run_for(milliseconds(50));
  EXPECT_EQ(pair.ends[1]->payload.bytes, "done");
}

TEST(Protocol, RetriesEnd) {
  CallingPair pair;
  Request request;
  request.idempotent = true;
  pair.call(0, 1, std::move(request));
  pair.fabric.kill(1);
  pair.fabric.run_for(milliseconds(3500));
  EXPECT_FALSE(pair.ends[0]);
  pair.fabric.run_for(milliseconds(2500));
  ASSERT_TRUE(pair.ends[0]) << "after four times a lease";
  EXPECT_EQ(pair.ends[0]->status, Status::Lost);
}

TEST(Protocol, ACallIsCancelledWhenItsCallerIsGone) {
  CallingPair pair;
  pair.call(0, 1);
  pair.fabric.run_for(milliseconds(20));
  pair.fabric.kill(0);
  pair.fabric.tell_gone(0);
  EXPECT_TRUE(pair.cancelled(0));
  EXPECT_EQ(pair.fabric.protocol(1).running(), 0u);
  pair.answer(1, "nobody hears");
}

TEST(Protocol, AValueIsMadeByACallAndHeldByItsCaller) {
  CallingPair pair;
  Request request;
  request.creates = pair.fabric.protocol(0).name(1);
  Reference made = request.creates;
  pair.call(0, 1, std::move(request));
  pair.fabric.run_for(milliseconds(20));
  ASSERT_EQ(pair.incoming.size(), 1u);
  EXPECT_NE(pair.incoming[0].creates->cargo(), nullptr);
  pair.answer(1, "");
  EXPECT_EQ(*pair.fabric.living(), 1);
  made = {};
  pair.fabric.settle(0);
  pair.fabric.run_for(milliseconds(50));
  EXPECT_EQ(*pair.fabric.living(), 0);
}

TEST(Protocol, APacketThatNoWorkerWouldWriteEndsAllWithItsSender) {
  CallingPair pair;
  pair.call(0, 1);
  pair.fabric.run_for(milliseconds(20));
  pair.fabric.protocol(0).receive(
      1, {.head = "nonsense", .parts = {}}, pair.fabric.now());
  pair.fabric.settle(0);
  ASSERT_TRUE(pair.ends[0]);
  EXPECT_EQ(pair.ends[0]->status, Status::Lost);
  EXPECT_NE(pair.ends[0]->why.find("what no worker would"), std::string::npos);
}

TEST(Protocol, WhoIsCutOffHearsOfIt) {
  CallingPair pair;
  pair.call(1, 0);
  pair.fabric.run_for(milliseconds(20));
  ASSERT_EQ(pair.incoming.size(), 1u);
  pair.fabric.protocol(0).receive(
      1, {.head = "nonsense", .parts = {}}, pair.fabric.now());
  pair.fabric.settle(0);
  pair.fabric.run_for(milliseconds(20));
  ASSERT_TRUE(pair.ends[0]) << "long before its lease";
  EXPECT_EQ(pair.ends[0]->status, Status::Lost);
}

TEST(Protocol, SleepsWhenNothingIsBetweenWorkers) {
  CallingPair pair;
  pair.call(0, 1);
  pair.fabric.run_for(milliseconds(20));
  EXPECT_NE(pair.fabric.protocol(0).next(), Time::max());
  pair.answer(1, "");
  pair.fabric.run_for(milliseconds(500));
  EXPECT_EQ(pair.fabric.protocol(0).next(), Time::max());
  EXPECT_EQ(pair.fabric.protocol(1).next(), Time::max());
}

}  // namespace
}  // namespace trireme::rpc
