#include "trireme/rpc/future.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cargo.h"
#include "trireme/rpc/blocking.h"
#include "trireme/rpc/cancelled.h"
#include "trireme/testing/message.h"

namespace trireme::rpc {
namespace {

using std::chrono::milliseconds;
using trireme::testing::message_of;
using ValueCargo = Cargo<struct FutureTest>;

std::exception_ptr future_error(const char* what) {
  return std::make_exception_ptr(std::runtime_error(what));
}

}  // namespace

TEST(Future, GivesTheValueThatWasSet) {
  Promise<std::string> promise;
  const Future<std::string> future = promise.future();
  EXPECT_TRUE(future.valid());
  EXPECT_FALSE(future.ready());
  EXPECT_TRUE(promise.set_value("seven"));
  EXPECT_TRUE(future.ready());
  EXPECT_EQ(future.get(), "seven");
  EXPECT_EQ(future.get(), "seven");
  EXPECT_FALSE(future.failed());
  EXPECT_EQ(future.error(), nullptr);
}

TEST(Future, OfNothingIsReadyAllTheSame) {
  Promise<void> promise;
  const Future<void> future = promise.future();
  promise.set_value();
  future.get();
  Future<void>(future).get();
  future.get(Deadline::after(milliseconds(0)));
}

TEST(Future, ThrowsTheErrorThatWasSet) {
  Promise<int> promise;
  const Future<int> future = promise.future();
  promise.set_exception(future_error("mine"));
  EXPECT_EQ(message_of<std::runtime_error>([&] { future.get(); }), "mine");
  EXPECT_EQ(message_of<std::runtime_error>([&] { Future<int>(future).get(); }), "mine");
  EXPECT_TRUE(future.failed());
}

TEST(Future, WhatTheValueThrowsOnItsWayInIsTheError) {
  struct Throws {
    explicit Throws(int) { throw std::runtime_error("no room"); }
  };
  Promise<Throws> promise;
  const auto future = promise.future();
  EXPECT_TRUE(promise.set_value(1));
  EXPECT_EQ(message_of<std::runtime_error>([&] { future.get(); }), "no room");
}

TEST(Future, WaitsForAnotherThread) {
  for (int round = 0; round < 2000; ++round) {
    Promise<int> promise;
    Future<int> future = promise.future();
    std::thread other(
        [promise = std::move(promise), round]() mutable { promise.set_value(round); });
    if (round % 2 == 0)
      EXPECT_EQ(future.get(), round);
    else
      EXPECT_EQ(
          std::move(future).get(Deadline::after(std::chrono::seconds(30))), round);
    other.join();
  }
}

TEST(Future, ManyThreadsWaitForOne) {
  for (int round = 0; round < 200; ++round) {
    Promise<std::string> promise;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([future = promise.future()]() mutable {
        EXPECT_EQ(std::move(future).get(), "for all of you");
      });
    promise.set_value("for all of you");
    for (auto& thread : threads)
      thread.join();
  }
}

TEST(Future, KeepsTheDeadline) {
  Promise<int> promise;
  const Future<int> future = promise.future();
  const auto start = Deadline::Clock::now();
  EXPECT_FALSE(future.wait_for(milliseconds(30)));
  EXPECT_EQ(
      message_of<TimeoutError>([&] { future.get(Deadline::after(milliseconds(30))); }),
      "[rpc] expected a result within 30 ms, got none; wait for longer, or look at who "
      "makes it");
  EXPECT_GE(Deadline::Clock::now() - start, milliseconds(60));
  // Having waited once does no harm.
  promise.set_value(1);
  EXPECT_TRUE(future.wait_for(milliseconds(0)));
  EXPECT_EQ(future.get(Deadline::after(milliseconds(-1))), 1);
}

TEST(Future, AnEmptyOneIsRefused) {
  const Future<int> empty;
  EXPECT_FALSE(empty.valid());
  const std::string text =
      "[rpc] expected a future of something, got an empty one; assign it what a call "
      "returns first";
  EXPECT_EQ(message_of<InvalidArgument>([&] { empty.get(); }), text);
  EXPECT_EQ(message_of<InvalidArgument>([&] { empty.ready(); }), text);
  EXPECT_EQ(message_of<InvalidArgument>([&] { empty.cancel(); }), text);
  EXPECT_EQ(message_of<InvalidArgument>([&] { empty.then([](int) {}); }), text);
  EXPECT_EQ(message_of<InvalidArgument>([&] { empty.handle([](auto) {}); }), text);
}

TEST(Future, MovesAndCopiesAreHandlesOfOne) {
  Promise<int> promise;
  Future<int> a = promise.future();
  Future<int> b = a;
  Future<int> c = std::move(a);
  EXPECT_FALSE(a.valid());
  a = c;
  const auto& same = a;
  a = same;
  promise.set_value(5);
  EXPECT_EQ(a.get() + b.get() + c.get(), 15);
}

TEST(Future, TheLastHandleGivesTheValueAway) {
  const int copies = ValueCargo::copies;
  {
    Promise<ValueCargo> promise;
    Future<ValueCargo> a = promise.future();
    promise.set_value(7);
    {
      const Future<ValueCargo> b = a;
      EXPECT_EQ(Future<ValueCargo>(b).get().value, 7);
      EXPECT_EQ(ValueCargo::copies, copies + 1);
    }
    EXPECT_EQ(a.get().value, 7);
    EXPECT_EQ(std::move(a).get().value, 7);
    EXPECT_EQ(ValueCargo::copies, copies + 1);
  }
  EXPECT_EQ(ValueCargo::alive, 0);
}

TEST(Future, AValueThatOnlyMovesIsGivenOnce) {
  Promise<std::unique_ptr<int>> promise;
  auto a = promise.future();
  auto b = a;
  promise.set_value(std::make_unique<int>(3));
  EXPECT_EQ(*a.get(), 3);
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { std::move(b).get(); }),
      "[rpc] expected one handle of a future whose value cannot be copied, got 2; let "
      "the others go first, or look at it by get() without a move");
  b = {};
  EXPECT_EQ(*std::move(a).get(), 3);
}

TEST(Promise, OneThatIsNotKeptIsAnError) {
  Future<int> future;
  {
    Promise<int> promise;
    future = promise.future();
    Promise<int> moved = std::move(promise);
    EXPECT_FALSE(future.ready());
  }
  EXPECT_EQ(
      message_of<Error>([&] { future.get(); }),
      "[rpc] expected a promise to be kept, got its end without a value; set a value "
      "or "
      "an error before it is destroyed");
}

TEST(Promise, AssignmentBreaksTheOneThatWasThere) {
  Promise<int> a, b;
  const auto of_a = a.future(), of_b = b.future();
  a = std::move(b);
  EXPECT_TRUE(of_a.failed());
  EXPECT_FALSE(of_b.ready());
  a.set_value(2);
  EXPECT_EQ(of_b.get(), 2);
}

TEST(Promise, IsKeptOnce) {
  Promise<int> promise;
  promise.set_value(1);
  const std::string text =
      "[rpc] expected a promise that is kept once, got a second value for it; make "
      "another promise";
  EXPECT_EQ(message_of<InvalidArgument>([&] { promise.set_value(2); }), text);
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { promise.set_exception(future_error("")); }),
      text);
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { promise.set_later([] { return 1; }); }), text);
  EXPECT_EQ(promise.future().get(), 1);
}

TEST(Promise, OneThatWasMovedAwayIsRefused) {
  Promise<int> a;
  const Promise<int> b = std::move(a);
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { a.future(); }),
      "[rpc] expected a promise, got one that was moved away; use the other one");
  EXPECT_THROW(a.set_value(1), InvalidArgument);
  EXPECT_THROW(a.on_cancel([](const std::string&) {}), InvalidArgument);
  EXPECT_FALSE(a.cancelled());
}

TEST(Promise, NobodyNeedsToLook) {
  {
    Promise<ValueCargo> promise;
    promise.set_value(1);
    Promise<ValueCargo> unseen;
    unseen.future();
  }
  EXPECT_EQ(ValueCargo::alive, 0);
}

TEST(Promise, ReadyAndFailedFuturesAreThereAtOnce) {
  EXPECT_EQ(ready_future(3).get(), 3);
  ready_future().get();
  EXPECT_EQ(
      message_of<std::runtime_error>(
          [] { failed_future<int>(future_error("at once")).get(); }),
      "at once");
}

TEST(FutureCancel, EndsItAndTellsTheProducer) {
  Promise<int> promise;
  std::string heard;
  promise.on_cancel([&](const std::string& why) { heard += why; });
  const auto future = promise.future();
  EXPECT_FALSE(promise.cancelled());
  EXPECT_TRUE(future.cancel("the user left"));
  EXPECT_FALSE(future.cancel("again"));
  EXPECT_EQ(heard, "the user left");
  EXPECT_TRUE(promise.cancelled());
  EXPECT_EQ(
      message_of<Cancelled>([&] { future.get(); }),
      "[rpc] expected a result, got the cancellation of what was to make it (the user "
      "left); ask again if it is needed after all");
  EXPECT_FALSE(promise.set_value(1));
  EXPECT_TRUE(future.failed());
}

TEST(FutureCancel, ComesTooLateForAValue) {
  Promise<int> promise;
  promise.on_cancel([cargo = ValueCargo()](const std::string&) { FAIL(); });
  const auto future = promise.future();
  promise.set_value(1);
  EXPECT_EQ(ValueCargo::alive, 0);  // the hook is of no use any more
  EXPECT_FALSE(future.cancel());
  EXPECT_EQ(future.get(), 1);
  promise.on_cancel([](const std::string&) { FAIL(); });
}

TEST(FutureCancel, AHookThatComesLateIsCalledAtOnce) {
  Promise<int> promise;
  promise.future().cancel("early");
  int calls = 0;
  promise.on_cancel([&](const std::string&) { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(FutureCancel, MeetsTheValueOnce) {
  for (int round = 0; round < 3000; ++round) {
    Promise<int> promise;
    std::atomic<int> told{0};
    const auto future = promise.future();
    std::atomic<bool> go{false};
    bool cancelled = false;
    std::thread other([&] {
      while (!go) {
      }
      cancelled = future.cancel();
    });
    go = true;
    promise.on_cancel([&](const std::string&) { ++told; });
    const bool set = promise.set_value(round);
    other.join();
    EXPECT_NE(set, cancelled);
    EXPECT_EQ(told, cancelled ? 1 : 0);
    EXPECT_EQ(future.failed(), cancelled);
  }
}

TEST(FutureDecode, IsDoneByTheFirstThatLooks) {
  Promise<std::string> promise;
  int calls = 0;
  const auto future = promise.future();
  promise.set_later([&, cargo = ValueCargo()] {
    ++calls;
    return std::string("decoded");
  });
  EXPECT_TRUE(future.ready());
  EXPECT_TRUE(future.wait_for(milliseconds(0)));
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(future.get(), "decoded");
  EXPECT_EQ(future.get(), "decoded");
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(ValueCargo::alive, 0);  // what was decoded is gone
}

TEST(FutureDecode, ItsErrorStays) {
  Promise<int> promise;
  int calls = 0;
  const auto future = promise.future();
  promise.set_later([&]() -> int {
    ++calls;
    throw std::runtime_error("bad bytes");
  });
  EXPECT_EQ(message_of<std::runtime_error>([&] { future.get(); }), "bad bytes");
  EXPECT_EQ(message_of<std::runtime_error>([&] { future.get(); }), "bad bytes");
  EXPECT_TRUE(future.failed());
  EXPECT_EQ(calls, 1);
}

TEST(FutureDecode, OfNothingMayFailToo) {
  Promise<void> fine, bad;
  fine.set_later([] {});
  fine.future().get();
  bad.set_later([] { throw std::runtime_error("bad bytes"); });
  EXPECT_THROW(bad.future().get(), std::runtime_error);
}

TEST(FutureDecode, OneIsCancelledNoMore) {
  Promise<int> promise;
  const auto future = promise.future();
  promise.set_later([] { return 1; });
  EXPECT_FALSE(future.cancel());
  EXPECT_EQ(future.get(), 1);
}

TEST(FutureDecode, ManyThreadsLookAtOnce) {
  for (int round = 0; round < 300; ++round) {
    Promise<std::string> promise;
    std::atomic<int> calls{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back(
          [future = promise.future()] { EXPECT_EQ(future.get(), "once"); });
    promise.set_later([&calls] {
      ++calls;
      std::this_thread::yield();
      return std::string("once");
    });
    for (auto& thread : threads)
      thread.join();
    EXPECT_EQ(calls, 1);
  }
}

TEST(FutureDecode, NobodyLooksAndNothingIsDecoded) {
  {
    Promise<int> promise;
    promise.set_later([cargo = ValueCargo()]() -> int {
      ADD_FAILURE();
      return 1;
    });
  }
  EXPECT_EQ(ValueCargo::alive, 0);
}

TEST(FutureBlocking, TellsTheHooksBeforeItSleeps) {
  struct Producer : BlockingHook {
    void block() override {
      ++blocks;
      if (promise)
        std::exchange(promise, nullptr)->set_value(9);
    }
    Promise<int>* promise = nullptr;
    int blocks = 0;
  };
  std::thread([] {
    Promise<int> promise;
    const auto future = promise.future();
    const auto hook = std::make_shared<Producer>();
    hook->promise = &promise;
    add_blocking_hook(hook);
    // Only the hook makes the value, as an agent that keeps calls back would.
    EXPECT_EQ(future.get(Deadline::after(std::chrono::seconds(30))), 9);
    EXPECT_EQ(hook->blocks, 1);
    EXPECT_EQ(future.get(), 9);
    EXPECT_EQ(hook->blocks, 1);
    Promise<int> other;
    EXPECT_FALSE(other.future().wait_for(milliseconds(0)));
    EXPECT_EQ(hook->blocks, 2);
  }).join();
}

}  // namespace trireme::rpc
