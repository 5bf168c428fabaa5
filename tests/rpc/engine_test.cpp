#include "trireme/rpc/engine.h"

#include <condition_variable>
#include <thread>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/rpc/future.h"

namespace trireme::rpc {
namespace {

using std::chrono::milliseconds;

class PromisedOutcome : public Completion {
 public:
  explicit PromisedOutcome(Promise<Outcome> promise) : promise_(std::move(promise)) {}
  void finish(Outcome outcome) override { promise_.set_value(std::move(outcome)); }

 private:
  Promise<Outcome> promise_;
};

// Hands each packet to the other engine at once, on the thread that sends.
struct Wire : Transport {
  void send(WorkerId to, Packet packet) override {
    ++packets;
    if (!cut)
      ends.at(static_cast<std::size_t>(to))->received(1 - to, std::move(packet));
  }
  std::vector<Engine*> ends;
  std::atomic<int> packets{0};
  std::atomic<bool> cut{false};
};

struct EnginePair {
  EnginePair() {
    for (WorkerId me = 0; me < 2; ++me)
      engines.push_back(std::make_shared<Engine>(EngineOptions{
          .protocol =
              {.link = {.lease = milliseconds(500)},
               .make_token = [] { return std::make_shared<int>(0); },
               .make_cargo = [] { return std::make_shared<int>(0); }},
          .me = me,
          .world_size = 2,
          .serve =
              [this, me](std::vector<Incoming> calls) {
                for (Incoming& call : calls)
                  engines[static_cast<std::size_t>(me)]->respond(
                      call, Status::Value, call.payload, true);
              },
          .cancel = [](const std::shared_ptr<void>&, const std::string&) {},
          .gone = nullptr}));
    wire.ends = {engines[0].get(), engines[1].get()};
    for (auto& engine : engines)
      engine->start(wire);
  }
  ~EnginePair() {
    for (auto& engine : engines)
      engine->stop("the test is over");
  }

  Future<Outcome> call(
      const std::string& bytes, bool hurry, Time deadline = Time::max()) {
    Promise<Outcome> promise;
    Future<Outcome> future = promise.future();
    Request request;
    request.payload.bytes = bytes;
    request.deadline = deadline;
    engines[0]->call(
        1,
        std::move(request),
        std::make_unique<PromisedOutcome>(std::move(promise)),
        hurry);
    return future;
  }

  Wire wire;
  std::vector<std::shared_ptr<Engine>> engines;
};

TEST(Engine, CallsComeBack) {
  EnginePair pair;
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(
        pair.call(std::to_string(i), i % 2 == 0).get().payload.bytes,
        std::to_string(i));
  EXPECT_EQ(pair.engines[0]->load().waiting, 0u);
}

TEST(Engine, CallsWithoutHurryShareAPacket) {
  EnginePair pair;
  pair.call("first", true).get();
  const int before = pair.wire.packets;
  std::vector<Future<Outcome>> many;
  for (int i = 0; i < 300; ++i)
    many.push_back(pair.call("x", false));
  for (const auto& one : many)
    EXPECT_EQ(one.get().status, Status::Value);
  // Each answer is in a hurry here; the calls are not.
  EXPECT_LT(pair.wire.packets - before, 450);
}

TEST(Engine, NobodyWaitsLongerThanItsDeadline) {
  EnginePair pair;
  pair.call("first", true).get();
  pair.wire.cut = true;
  const auto start = Time::clock::now();
  EXPECT_EQ(
      pair.call("lost", true, start + milliseconds(40)).get().status, Status::Late);
  EXPECT_GE(Time::clock::now() - start, milliseconds(40));
  EXPECT_LT(Time::clock::now() - start, milliseconds(400));
}

TEST(Engine, ASilentWorkerIsLostAfterItsLease) {
  EnginePair pair;
  pair.call("first", true).get();
  pair.wire.cut = true;
  const Outcome outcome =
      pair.call("lost", true).get(Deadline::after(std::chrono::seconds(10)));
  EXPECT_EQ(outcome.status, Status::Lost);
  EXPECT_NE(outcome.why.find("silent for 500 ms"), std::string::npos) << outcome.why;
}

TEST(Engine, WhenItStopsAllThatWaitsEnds) {
  EnginePair pair;
  pair.call("first", true).get();
  pair.wire.cut = true;
  const auto waiting = pair.call("lost", true);
  pair.engines[0]->stop("a test");
  EXPECT_EQ(waiting.get().status, Status::Lost);
  EXPECT_EQ(waiting.get().why, "a test");
  EXPECT_EQ(pair.call("late", true).get().why, "a test");
  EXPECT_EQ(pair.engines[0]->why_gone(1), "a test");
}

TEST(Engine, AThreadOfTheNetworkMustNotWait) {
  EnginePair pair;
  add_blocking_hook(pair.engines[0]);
  pair.call("first", true).get();
  std::string message;
  Promise<Outcome> promise;
  const auto waits = promise.future().then([&](const Outcome&) {
    try {
      Promise<void> never;
      never.future().wait_for(milliseconds(1));
    } catch (const Error& error) {
      message = error.what();
    }
  });
  pair.engines[0]->call(
      1, {}, std::make_unique<PromisedOutcome>(std::move(promise)), true);
  waits.get();
  EXPECT_NE(message.find("does not wait on a thread of the network"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace trireme::rpc
