#include "trireme/rpc/engine.h"

#include <filesystem>
#include <fstream>
#include <unistd.h>

#include "shelf.h"

namespace trireme::rpc {
namespace {

// A transport that takes nothing.
class RefusingTransport final : public Transport {
 public:
  void send(WorkerId, Packet) override {
    ++refused;
    throw InvalidArgument("[test] expected nothing to send, got a packet; keep it");
  }
  void give_up(WorkerId) override {}
  std::atomic<int> refused{0};
};

// Calls end by their deadlines, and the engine's thread lives on.
TEST(Engine, OutlivesATransportThatRefuses) {
  struct End final : Completion {
    explicit End(Promise<Status> given) : promise(std::move(given)) {}
    void finish(Outcome outcome) override { promise.set_value(outcome.status); }
    Promise<Status> promise;
  };
  RefusingTransport transport;
  EngineOptions options{.me = 0, .world_size = 2};
  options.protocol.make_token = [] { return std::make_shared<int>(); };
  options.protocol.make_cargo = [] { return std::make_shared<int>(); };
  Engine engine(std::move(options));
  engine.start(transport);
  for (const Haste haste : {Haste::Gather, Haste::Now, Haste::Later}) {
    Promise<Status> promise;
    const Future<Status> ended = promise.future();
    Request request{
        .payload = {.bytes = "call"},
        .deadline = Time::clock::now() + milliseconds(100)};
    engine.call(
        1, std::move(request), std::make_unique<End>(std::move(promise)), haste);
    EXPECT_EQ(ended.get(Deadline::after(std::chrono::seconds(10))), Status::Late);
  }
  EXPECT_GT(transport.refused.load(), 0);
  engine.stop("the test is over");
}

// Two engines with nothing between them.
class PromisedOutcome : public Completion {
 public:
  explicit PromisedOutcome(Promise<Outcome> promise) : promise_(std::move(promise)) {}
  void finish(Outcome outcome) override { promise_.set_value(std::move(outcome)); }

 private:
  Promise<Outcome> promise_;
};

// Hands each packet to the other engine at once, on the thread that sends.
struct DirectWire : Transport {
  void send(WorkerId to, Packet packet) override {
    ++packets;
    if (!cut)
      ends.at(static_cast<std::size_t>(to))->received(1 - to, std::move(packet));
  }
  void give_up(WorkerId worker) override { given_up = worker; }
  std::vector<Engine*> ends;
  std::atomic<WorkerId> given_up{-1};
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
          .forget = nullptr}));
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
    return call(bytes, hurry ? Haste::Now : Haste::Gather, deadline);
  }
  Future<Outcome> call(
      const std::string& bytes, Haste haste, Time deadline = Time::max()) {
    Promise<Outcome> promise;
    Future<Outcome> future = promise.future();
    Request request;
    request.payload.bytes = bytes;
    request.deadline = deadline;
    engines[0]->call(
        1,
        std::move(request),
        std::make_unique<PromisedOutcome>(std::move(promise)),
        haste);
    return future;
  }

  // What goes on with a call, and would wait, is told.
  std::string refusal_to_wait(Time deadline) {
    Promise<Outcome> promise;
    const auto waits = promise.future().then([](const Outcome&) {
      return message_of<Error>([] {
        Promise<void> never;
        never.future().wait_for(milliseconds(1));
      });
    });
    Request request;
    request.deadline = deadline;
    engines[0]->call(
        1,
        std::move(request),
        std::make_unique<PromisedOutcome>(std::move(promise)),
        Haste::Now);
    return waits.get(Deadline::after(std::chrono::seconds(10)));
  }

  DirectWire wire;
  std::vector<std::shared_ptr<Engine>> engines;
};

constexpr const char* kMustNotWait = "does not wait on a thread of the network";

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

// How often all other threads of this process have gone to sleep.
long sleeps_of_others() {
  long sleeps = 0;
  const std::string me = std::to_string(::gettid());
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task"))
    if (thread.path().filename() != me) {
      std::ifstream status(thread.path() / "status");
      for (std::string line; std::getline(status, line);)
        if (line.starts_with("voluntary_ctxt_switches:"))
          sleeps += std::stol(line.substr(line.find(':') + 1));
    }
  return sleeps;
}

TEST(Engine, ItsThreadSleepsWhileCallsComeAndGo) {
  EnginePair pair;
  pair.call("first", true).get();
  constexpr int kCalls = 400;
  const long before = sleeps_of_others();
  const auto start = Time::clock::now();
  for (int i = 0; i < kCalls; ++i) {
    pair.call("x", true).get();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  const auto beats = (Time::clock::now() - start) / milliseconds(10);
  EXPECT_LT(sleeps_of_others() - before, 40 + 4 * beats) << "of two engines";
}

TEST(Engine, WhatIsInNoHurryGoesWithTheNext) {
  EnginePair pair;
  pair.call("first", true).get();
  const int before = pair.wire.packets;
  const auto later = pair.call("x", Haste::Later);
  EXPECT_EQ(pair.wire.packets, before);
  const auto now = pair.call("y", true);
  EXPECT_EQ(later.get().payload.bytes, "x");
  EXPECT_EQ(now.get().payload.bytes, "y");
  // One there, and an answer to each.
  EXPECT_LE(pair.wire.packets - before, 3);
}

TEST(Engine, WhatIsInNoHurryGoesAlone) {
  EnginePair pair;
  pair.call("first", true).get();
  EXPECT_EQ(
      pair.call("x", Haste::Later)
          .get(Deadline::after(std::chrono::seconds(10)))
          .status,
      Status::Value);
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

TEST(Engine, WhoSendsWhatNoWorkerWouldIsLetGo) {
  EnginePair pair;
  pair.call("first", true).get();
  pair.engines[1]->received(0, {.head = "nonsense"});
  EXPECT_EQ(pair.wire.given_up, 0);
  EXPECT_NE(pair.engines[1]->why_gone(0), "");
  EXPECT_EQ(
      pair.call("unheard", true, Time::clock::now() + milliseconds(300)).get().status,
      Status::Late);
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
  pair.call("first", true).get();
  EXPECT_TRUE(contains(pair.refusal_to_wait(Time::max()), kMustNotWait));
}

// The engine's own thread has never made a call.
TEST(Engine, AThreadThatLooksAtTheTimeMustNotWait) {
  EnginePair pair;
  pair.call("first", true).get();
  pair.wire.cut = true;
  EXPECT_TRUE(contains(
      pair.refusal_to_wait(Time::clock::now() + milliseconds(20)), kMustNotWait));
}

}  // namespace
}  // namespace trireme::rpc
