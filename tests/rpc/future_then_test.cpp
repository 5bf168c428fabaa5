#include "trireme/rpc/future_then.h"

#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cargo.h"
#include "trireme/rpc/cancelled.h"
#include "trireme/rpc/worker_pool.h"
#include "trireme/testing/message.h"

namespace trireme::rpc {
namespace {

using trireme::testing::message_of;
using ThenCargo = Cargo<struct FutureThenTest>;

std::exception_ptr then_error(const char* what) {
  return std::make_exception_ptr(std::runtime_error(what));
}

// Keeps tasks until it is told to run them.
struct ManualExecutor : Executor {
  bool try_run(Task&& task) override {
    if (full)
      return false;
    tasks.push_back(std::move(task));
    return true;
  }
  void run_all() {
    for (Task& task : std::exchange(tasks, {}))
      task();
  }
  std::vector<Task> tasks;
  bool full = false;
};

}  // namespace

TEST(FutureThen, GoesOnWithTheValue) {
  Promise<int> promise;
  const auto future = promise.future();
  const Future<std::string> text = future.then([](int x) { return std::to_string(x); });
  const Future<void> nothing =
      text.then([](const std::string& s) { EXPECT_EQ(s, "4"); });
  const Future<int> from_nothing = nothing.then([] { return 5; });
  EXPECT_FALSE(text.ready());
  promise.set_value(4);
  EXPECT_EQ(text.get(), "4");
  EXPECT_EQ(from_nothing.get(), 5);
}

TEST(FutureThen, RunsAtOnceWhenTheValueIsThere) {
  const auto here = std::this_thread::get_id();
  const auto future =
      ready_future(1).then([&](int) { return std::this_thread::get_id(); });
  EXPECT_TRUE(future.ready());
  EXPECT_EQ(future.get(), here);
}

TEST(FutureThen, RunsInTheOrderOfAsking) {
  Promise<int> promise;
  const auto future = promise.future();
  std::string notes;
  const auto a = future.then([&](int) { notes += 'a'; });
  const auto b = future.then([&](int) { notes += 'b'; });
  const auto c = future.then([&](int) { notes += 'c'; });
  promise.set_value(0);
  EXPECT_EQ(notes, "abc");
}

TEST(FutureThen, IsRunThoughNobodyHoldsItsEnd) {
  Promise<int> promise;
  int seen = 0;
  promise.future().then([&](int x) { seen = x; });
  promise.set_value(6);
  EXPECT_EQ(seen, 6);
}

TEST(FutureThen, AnErrorGoesPast) {
  Promise<int> promise;
  bool called = false;
  const auto end =
      promise.future().then([&](int) { called = true; }).then([&] { called = true; });
  promise.set_exception(then_error("early"));
  EXPECT_EQ(message_of<std::runtime_error>([&] { end.get(); }), "early");
  EXPECT_FALSE(called);
}

TEST(FutureThen, WhatItThrowsIsItsError) {
  const auto end =
      ready_future(1).then([](int) -> int { throw std::runtime_error("own"); });
  EXPECT_EQ(message_of<std::runtime_error>([&] { end.get(); }), "own");
}

TEST(FutureThen, HandleSeesTheErrorToo) {
  const auto repair = [](const Future<int>& ended) { return ended.failed() ? -1 : 1; };
  EXPECT_EQ(ready_future(1).handle(repair).get(), 1);
  EXPECT_EQ(failed_future<int>(then_error("")).handle(repair).get(), -1);
  const auto named = ready_future(3);
  EXPECT_EQ(named.handle([](Future<int> f) { return f.get(); }).get(), 3);
}

TEST(FutureThen, WaitsForAFutureThatItReturns) {
  Promise<int> inner;
  Promise<void> outer;
  const Future<int> end =
      outer.future().then([future = inner.future()] { return future; });
  outer.set_value();
  EXPECT_FALSE(end.ready());
  inner.set_value(8);
  EXPECT_EQ(end.get(), 8);
  const Future<void> nothing = ready_future(1).then([](int) { return ready_future(); });
  nothing.get();
}

TEST(FutureThen, TheErrorOfAnInnerFutureIsItsError) {
  const auto end =
      ready_future(1).then([](int) { return failed_future<int>(then_error("inner")); });
  EXPECT_EQ(message_of<std::runtime_error>([&] { end.get(); }), "inner");
  const auto empty = ready_future(1).then([](int) { return Future<int>(); });
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { empty.get(); }),
      "[rpc] expected a future of something, got an empty one; assign it what a call "
      "returns first");
}

TEST(FutureThen, MovesAValueThatNobodyElseHas) {
  const int copies = ThenCargo::copies;
  {
    Promise<ThenCargo> promise;
    auto end =
        promise.future()
            .then([](ThenCargo cargo) { return cargo; })
            .then([](ThenCargo&& cargo) { return ready_future(std::move(cargo)); })
            .then([](const ThenCargo& cargo) { return cargo.value; });
    promise.set_value(3);
    EXPECT_EQ(std::move(end).get(), 3);
    EXPECT_EQ(ThenCargo::copies, copies);
    const auto held = ready_future(ThenCargo(4));
    EXPECT_EQ(held.then([](ThenCargo cargo) { return cargo.value; }).get(), 4);
    EXPECT_EQ(held.get().value, 4);
    EXPECT_EQ(ThenCargo::copies, copies + 1);
  }
  EXPECT_EQ(ThenCargo::alive, 0);
}

TEST(FutureThen, TakesWhatOnlyMoves) {
  auto end = ready_future(std::make_unique<int>(2))
                 .then([](std::unique_ptr<int> x) { return x; })
                 .then([own = std::make_unique<int>(3)](std::unique_ptr<int> x) {
                   return *x + *own;
                 });
  EXPECT_EQ(std::move(end).get(), 5);
}

TEST(FutureThen, WhatItHoldsGoesBeforeItsResultIsSeen) {
  Promise<int> promise;
  const auto first = promise.future().then([cargo = ThenCargo()](int x) { return x; });
  int seen = -1;
  const auto second = first.then([&](int) { seen = ThenCargo::alive; });
  EXPECT_EQ(ThenCargo::alive, 1);
  promise.set_value(1);
  EXPECT_EQ(seen, 0);
  const auto failed = ready_future(1).then([cargo = ThenCargo()](int) { throw 1; });
  EXPECT_EQ(ThenCargo::alive, 0);
}

TEST(FutureThen, LongChainsNeedNoStack) {
  constexpr int kLinks = 100'000;
  Promise<int> promise;
  Future<int> end = promise.future();
  for (int i = 0; i < kLinks; ++i)
    end = std::move(end).then([](int x) { return x + 1; });
  promise.set_value(0);
  EXPECT_EQ(end.get(), kLinks);
}

TEST(FutureThen, LongChainsFailAndAreCancelledWithoutStack) {
  constexpr int kLinks = 100'000;
  for (const bool cancel : {false, true}) {
    Promise<int> promise;
    int told = 0;
    promise.on_cancel([&](const std::string&) { ++told; });
    Future<int> end = promise.future();
    for (int i = 0; i < kLinks; ++i)
      end = std::move(end).then([](int x) { return x + 1; });
    if (cancel)
      EXPECT_TRUE(end.cancel());
    else
      promise.set_exception(then_error("first"));
    EXPECT_TRUE(end.failed());
    EXPECT_EQ(told, cancel ? 1 : 0);
  }
}

// A loop written with futures: each round returns the future of the next.
Future<int> count_down(int left) {
  if (left == 0)
    return ready_future(0);
  return ready_future(left).then([](int now) { return count_down(now - 1); });
}

TEST(FutureThen, LongLoopsOfFuturesNeedNoStack) {
  Promise<int> promise;
  const auto end = promise.future().then([](int rounds) { return count_down(rounds); });
  promise.set_value(100'000);
  EXPECT_EQ(end.get(), 0);
}

TEST(FutureThen, WhatIsPutOffRunsBeforeItsThreadWaits) {
  Promise<int> outer;
  const auto end = outer.future().then([](int x) {
    Promise<int> inner;
    const auto next = inner.future().then([](int y) { return y + 1; });
    inner.set_value(x);
    return next.get();  // its continuation is this thread's to run
  });
  outer.set_value(1);
  EXPECT_EQ(end.get(), 2);
}

TEST(FutureThenCancel, CancelsWhatItIsMadeOf) {
  Promise<int> promise;
  std::string heard;
  promise.on_cancel([&](const std::string& why) { heard = why; });
  bool called = false;
  const auto end =
      promise.future().then([&](int) { called = true; }).then([] { return 1; });
  EXPECT_TRUE(end.cancel("enough"));
  EXPECT_EQ(heard, "enough");
  EXPECT_THROW(end.get(), Cancelled);
  EXPECT_FALSE(promise.set_value(1));
  EXPECT_FALSE(called);
}

TEST(FutureThenCancel, LeavesWhatOthersHoldAlone) {
  Promise<int> promise;
  promise.on_cancel([](const std::string&) { FAIL(); });
  const auto shared = promise.future();
  bool called = false;
  const auto end = shared.then([&](int) { called = true; });
  EXPECT_TRUE(end.cancel());
  EXPECT_TRUE(promise.set_value(1));
  EXPECT_EQ(shared.get(), 1);
  EXPECT_FALSE(called);  // nobody waits for it
}

TEST(FutureThenCancel, ReachesTheInnerFuture) {
  Promise<int> outer, inner;
  int told = 0;
  inner.on_cancel([&](const std::string&) { ++told; });
  auto future = inner.future();
  const auto end = outer.future().then(
      [future = std::move(future)](int) mutable { return std::move(future); });
  outer.set_value(1);
  EXPECT_TRUE(end.cancel());
  EXPECT_EQ(told, 1);
}

TEST(FutureThenCancel, OneThatRunsCancelsTheFutureThatItReturns) {
  Promise<int> outer, inner;
  int told = 0;
  inner.on_cancel([&](const std::string&) { ++told; });
  Future<int> end;
  end = outer.future().then([&](int) {
    end.cancel("while it runs");
    return inner.future();
  });
  outer.set_value(1);
  EXPECT_THROW(end.get(), Cancelled);
  EXPECT_EQ(told, 1);
}

TEST(FutureThenExecutor, RunsThere) {
  ManualExecutor executor;
  const auto end = ready_future(1).then([](int x) { return x + 1; }, &executor);
  EXPECT_FALSE(end.ready());
  ASSERT_EQ(executor.tasks.size(), 1u);
  executor.run_all();
  EXPECT_EQ(end.get(), 2);
}

TEST(FutureThenExecutor, RunsHereWhenThatIsFull) {
  ManualExecutor executor;
  executor.full = true;
  EXPECT_EQ(ready_future(1).then([](int x) { return x + 1; }, &executor).get(), 2);
}

TEST(FutureThenExecutor, OneThatEndsFirstIsAnError) {
  Future<int> end;
  {
    ManualExecutor executor;
    end = ready_future(1).then([cargo = ThenCargo()](int x) { return x; }, &executor);
    EXPECT_FALSE(end.ready());
  }
  EXPECT_EQ(
      message_of<Error>([&] { end.get(); }),
      "[rpc] expected an executor that runs its tasks, got one that ended first; stop "
      "it "
      "after those who use it");
  EXPECT_EQ(ThenCargo::alive, 0);
}

TEST(FutureThenExecutor, TheCallComesAlong) {
  ManualExecutor executor;
  Promise<int> promise;
  const auto function = [](int) { return this_call() ? this_call()->function : ""; };
  Future<std::string> with, without, on_executor;
  {
    const CallScope scope(
        std::make_shared<CallContext>(CallContext{.function = "serve"}));
    with = promise.future().then(function);
    on_executor = promise.future().then(function, &executor);
  }
  without = promise.future().then(function);
  {
    const CallScope other(
        std::make_shared<CallContext>(CallContext{.function = "other"}));
    promise.set_value(1);
    EXPECT_EQ(this_call()->function, "other");
  }
  executor.run_all();
  EXPECT_EQ(with.get(), "serve");
  EXPECT_EQ(on_executor.get(), "serve");
  EXPECT_EQ(without.get(), "");
  EXPECT_EQ(this_call(), nullptr);
}

TEST(FutureThen, ThreadsAskWhileTheValueComes) {
  for (int round = 0; round < 1000; ++round) {
    Promise<std::string> promise;
    const auto future = promise.future();
    std::atomic<int> calls{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&calls, own = future] {
        for (int k = 0; k < 5; ++k)
          own.then([&](const std::string& s) { calls += s == "value" ? 1 : 100; });
        own.then([](std::string s) { return s + "!"; }).get();
      });
    promise.set_value("value");
    for (auto& thread : threads)
      thread.join();
    // All asked before they waited, so all have run, or run on the promise's thread,
    // which is this one.
    EXPECT_EQ(calls, 15);
  }
}

// Chains over a pool, some of which fail or are cancelled while they run: each ends,
// and nothing stays.
TEST(FutureThen, EveryChainEndsInAStorm) {
  {
    WorkerPool pool({.threads = 3, .queue = 64});
    std::atomic<int> values{0}, errors{0};
    const auto make_chain = [&](const Promise<ThenCargo>& promise, unsigned dice) {
      Executor* executor = dice % 3 == 0 ? nullptr : &pool;
      return promise.future()
          .then(
              [](ThenCargo cargo) {
                if (cargo.value % 7 == 0)
                  throw std::runtime_error("seven");
                return cargo;
              },
              executor)
          .then(
              [&pool](ThenCargo cargo) {
                return ready_future(std::move(cargo))
                    .then([](ThenCargo inner) { return inner; }, &pool);
              },
              executor)
          .handle(
              [&](const Future<ThenCargo>& end) { ++(end.failed() ? errors : values); })
          .then([] { return 1; });
    };
    constexpr int kThreads = 3, kRounds = 1500;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] {
        std::minstd_rand random(i + 1);
        for (int round = 0; round < kRounds; ++round) {
          Promise<ThenCargo> promise;
          const auto end = make_chain(promise, random());
          const bool cancels = random() % 4 == 0;
          if (random() % 8 != 0)  // else it is broken
            promise.set_value(static_cast<int>(random() % 100));
          promise = {};
          if (cancels)
            end.cancel("storm");
          EXPECT_TRUE(end.wait(Deadline::after(std::chrono::seconds(30))));
        }
      });
    for (auto& thread : threads)
      thread.join();
    pool.stop(Deadline::after(std::chrono::seconds(30)));
    EXPECT_GT(values, 0);
    EXPECT_GT(errors, 0);
    EXPECT_LE(values + errors, kThreads * kRounds);
  }
  EXPECT_EQ(ThenCargo::alive, 0);
}

}  // namespace trireme::rpc
