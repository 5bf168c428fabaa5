#include "trireme/rpc/worker_pool.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <pthread.h>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cargo.h"
#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/rpc/blocking.h"
#include "trireme/rpc/future.h"
#include "trireme/testing/message.h"

namespace trireme::rpc {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using trireme::testing::message_of;
using PoolCargo = Cargo<struct WorkerPoolTest>;

const Deadline soon() {
  return Deadline::after(seconds(30));
}

// Closed at first.
class Gate {
 public:
  void open() { promise_.set_value(); }
  // Without a word to the pool, as a function that computes.
  void pass() {
    while (!future_.ready())
      std::this_thread::yield();
  }
  // As one that waits.
  void wait() { Future<void>(future_).get(soon()); }

 private:
  Promise<void> promise_;
  Future<void> future_ = promise_.future();
};

void expect_soon(const std::function<bool()>& done) {
  const Deadline deadline = soon();
  while (!done() && !deadline.expired())
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(done());
}

}  // namespace

TEST(WorkerPool, RunsWhatItIsGiven) {
  std::atomic<int> sum{0};
  {
    WorkerPool pool({.threads = 3});
    for (int i = 1; i <= 1000; ++i)
      ASSERT_TRUE(pool.try_run([&sum, i] { sum += i; }));
    pool.stop(soon());
    EXPECT_EQ(sum, 500'500);
    EXPECT_EQ(pool.figures().started, 1000u);
    EXPECT_EQ(pool.figures().threads, 0);
  }
}

TEST(WorkerPool, RunsManyThatComeTogether) {
  std::vector<int> order;
  WorkerPool pool({.threads = 1});
  std::vector<Task> tasks;
  for (int i = 0; i < 300; ++i)
    tasks.emplace_back([&order, i] { order.push_back(i); });
  EXPECT_EQ(pool.try_run_all(tasks), 300u);
  pool.stop(soon());
  ASSERT_EQ(order.size(), 300u);
  for (int i = 0; i < 300; ++i)
    EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(pool.try_run_all(tasks), 0u);
}

TEST(WorkerPool, ManyThatComeTogetherRunOnAllThreads) {
  WorkerPool pool({.threads = 4});
  std::atomic<int> here{0};
  std::vector<Task> tasks;
  for (int i = 0; i < 4; ++i)
    tasks.emplace_back([&] {
      ++here;
      while (here < 4)  // ends only if all four run
        std::this_thread::yield();
    });
  EXPECT_EQ(pool.try_run_all(tasks), 4u);
  pool.stop(soon());
  EXPECT_EQ(here, 4);
}

TEST(WorkerPool, TakesTheFirstOfManyAndLeavesTheRest) {
  WorkerPool pool({.threads = 1, .queue = 2});
  Gate gate;
  std::atomic<bool> runs{false};
  pool.try_run([&] {
    runs = true;
    gate.pass();
  });
  expect_soon([&] { return runs.load(); });
  std::atomic<int> ran{0};
  std::vector<Task> tasks;
  for (int i = 0; i < 5; ++i)
    tasks.emplace_back([&ran, i] { ran += 1 << i; });
  EXPECT_EQ(pool.try_run_all(tasks), 2u);
  EXPECT_FALSE(tasks[1]);
  EXPECT_TRUE(tasks[2]);
  gate.open();
  pool.stop(soon());
  EXPECT_EQ(ran, 3);
}

TEST(WorkerPool, OneThreadKeepsTheOrder) {
  WorkerPool pool({.threads = 1});
  std::vector<int> seen, expected;
  for (int i = 0; i < 500; ++i) {
    expected.push_back(i);
    ASSERT_TRUE(pool.try_run([&seen, i] { seen.push_back(i); }));
  }
  pool.stop(soon());
  EXPECT_EQ(seen, expected);
}

TEST(WorkerPool, RunsAsManyAtOnceAsItHasThreads) {
  WorkerPool pool({.threads = 4});
  std::atomic<int> here{0};
  for (int i = 0; i < 4; ++i)
    pool.try_run([&] {
      ++here;
      while (here < 4)  // ends only if all four run
        std::this_thread::yield();
    });
  pool.stop(soon());
  EXPECT_EQ(here, 4);
}

TEST(WorkerPool, NeverRunsMoreAtOnce) {
  WorkerPool pool({.threads = 2});
  std::atomic<int> running{0}, most{0};
  for (int i = 0; i < 300; ++i)
    pool.try_run([&] {
      const int now = ++running;
      int seen = most;
      while (seen < now && !most.compare_exchange_weak(seen, now)) {
      }
      std::this_thread::yield();
      --running;
    });
  pool.stop(soon());
  EXPECT_LE(most, 2);
}

TEST(WorkerPool, StartsThreadsWhenTheyAreNeeded) {
  WorkerPool pool({.threads = 8});
  EXPECT_EQ(pool.figures().threads, 1);
  for (int i = 0; i < 20; ++i) {
    Promise<void> promise;
    const auto done = promise.future();
    pool.try_run([promise = std::move(promise)]() mutable { promise.set_value(); });
    done.get(soon());
  }
  // One after the other needs two at most: the one that runs, and one that comes.
  EXPECT_LE(pool.figures().threads, 4);
}

TEST(WorkerPool, RefusesWhatIsTooMuchAndLeavesIt) {
  Gate gate;
  WorkerPool pool({.threads = 1, .queue = 3});
  std::atomic<bool> begun{false};
  pool.try_run([&] {
    begun = true;
    gate.pass();
  });
  expect_soon([&] { return begun.load(); });
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(pool.try_run([cargo = PoolCargo()] {}));
  EXPECT_EQ(pool.figures().queued, 3u);
  bool called = false;
  Task one_more = [&] { called = true; };
  EXPECT_FALSE(pool.try_run(std::move(one_more)));
  ASSERT_TRUE(one_more);
  one_more();
  EXPECT_TRUE(called);
  gate.open();
  pool.stop(soon());
  EXPECT_FALSE(pool.try_run([] { FAIL(); }));
  EXPECT_EQ(PoolCargo::alive, 0);
}

TEST(WorkerPool, WhatATaskThrowsIsLogged) {
  std::vector<std::string> lines;
  const auto scope =
      set_log_sink([&](std::string_view line) { lines.emplace_back(line); });
  WorkerPool pool(
      {.name = "clumsy", .threads = 1, .prepare = [] { throw Error("unprepared"); }});
  std::atomic<int> ran{0};
  pool.try_run([] { throw Error("broken"); });
  pool.try_run([] { throw 1; });
  pool.try_run([&] { ++ran; });
  pool.stop(soon());
  EXPECT_EQ(ran, 1);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(trireme::testing::contains(
      lines[0], "the preparation of pool 'clumsy' threw: unprepared"));
  EXPECT_TRUE(
      trireme::testing::contains(lines[1], "a task of pool 'clumsy' threw: broken"));
  EXPECT_TRUE(
      trireme::testing::contains(lines[2], "a task of pool 'clumsy' threw something"));
}

TEST(WorkerPool, PreparesAndNamesItsThreads) {
  std::atomic<int> prepared{0};
  WorkerPool pool({.name = "a pool with a long name", .threads = 2, .prepare = [&] {
                     ++prepared;
                   }});
  std::array<char, 32> name{};
  pool.try_run([&] { pthread_getname_np(pthread_self(), name.data(), name.size()); });
  pool.stop(soon());
  EXPECT_STREQ(name.data(), "a pool with a l");
  EXPECT_GE(prepared, 1);
}

TEST(WorkerPool, WrongOptionsAreRefused) {
  EXPECT_EQ(
      message_of<InvalidArgument>(
          [] { WorkerPool pool({.name = "p", .threads = 5, .most = 4}); }),
      "[rpc] expected at least 1 thread for pool 'p', and no fewer at most, got "
      "threads = "
      "5 and most = 4; raise the smaller one");
  EXPECT_THROW(WorkerPool({.threads = -1}), InvalidArgument);
  EXPECT_THROW(WorkerPool({.most = 0}), InvalidArgument);
  EXPECT_EQ(
      message_of<InvalidArgument>([] { WorkerPool pool({.name = "p", .queue = 0}); }),
      "[rpc] expected a queue with room for a task for pool 'p', got queue = 0; set it "
      "to 1 or more");
  EXPECT_EQ(
      message_of<InvalidArgument>(
          [] { WorkerPool pool({.name = "p", .idle = milliseconds(0)}); }),
      "[rpc] expected threads of pool 'p' to stay idle for at least 1 ms, got 0; give "
      "them a second or two");
}

TEST(WorkerPoolBlocking, OneThatWaitsLetsAnotherWork) {
  WorkerPool pool({.threads = 1});
  Gate gate;
  std::atomic<bool> waited{false};
  pool.try_run([&] {
    gate.wait();
    waited = true;
  });
  pool.try_run([&] { gate.open(); });
  pool.stop(soon());
  EXPECT_TRUE(waited);
}

TEST(WorkerPoolBlocking, OneThatOnlyComputesDoesNot) {
  WorkerPool pool({.threads = 1});
  Gate gate;
  std::atomic<bool> other{false};
  pool.try_run([&] { gate.pass(); });
  pool.try_run([&] { other = true; });
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_FALSE(other);
  EXPECT_EQ(pool.figures().threads, 1);
  gate.open();
  pool.stop(soon());
  EXPECT_TRUE(other);
}

TEST(WorkerPoolBlocking, TasksThatComeLaterFindAThreadToo) {
  WorkerPool pool({.threads = 2});
  Gate gate;
  for (int i = 0; i < 2; ++i)
    pool.try_run([&] { gate.wait(); });
  expect_soon([&] { return pool.figures().blocked == 2; });
  pool.try_run([&] { gate.open(); });
  pool.stop(soon());
}

TEST(WorkerPoolBlocking, OtherWaitsAreToldByHand) {
  WorkerPool pool({.threads = 1});
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  pool.try_run([&] {
    const Blocking blocking;
    const Blocking again;  // counts once
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return open; });
  });
  expect_soon([&] { return pool.figures().blocked == 1; });
  pool.try_run([&] {
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  });
  pool.stop(soon());
  EXPECT_EQ(pool.figures().blocked, 0);
}

namespace {

// A task that waits for a task that waits … `depth` of them.
int nest(WorkerPool& pool, int depth) {
  if (depth == 0)
    return 0;
  Promise<int> promise;
  const auto inner = promise.future();
  EXPECT_TRUE(pool.try_run([&pool, depth, promise = std::move(promise)]() mutable {
    try {
      promise.set_value(nest(pool, depth - 1));
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }));
  return inner.get(soon()) + 1;
}

}  // namespace

TEST(WorkerPoolBlocking, NestsAsDeepAsThereMayBeThreads) {
  WorkerPool pool({.threads = 1, .most = 24});
  EXPECT_EQ(nest(pool, 24), 24);
  EXPECT_LE(pool.figures().threads, 24);
}

TEST(WorkerPoolBlocking, BeyondThatItFailsByName) {
  WorkerPool pool({.name = "deep", .threads = 1, .most = 24});
  EXPECT_EQ(
      message_of<Error>([&] { nest(pool, 25); }),
      "[rpc] expected at most 23 tasks of pool 'deep' that wait at once, got one more; "
      "give the pool more threads, or go on by then() in place of waiting");
  // And goes on.
  EXPECT_EQ(nest(pool, 24), 24);
  EXPECT_EQ(pool.figures().blocked, 0);
}

TEST(WorkerPoolBlocking, ThreadsThatAreTooManyEnd) {
  WorkerPool pool({.threads = 2, .most = 16, .idle = milliseconds(20)});
  EXPECT_EQ(nest(pool, 12), 12);
  expect_soon([&] { return pool.figures().threads <= 2; });
  EXPECT_GE(pool.figures().threads, 1);
  EXPECT_EQ(nest(pool, 12), 12);
}

TEST(WorkerPoolStop, RunsOrDropsWhatWaits) {
  for (const auto rest : {WorkerPool::Rest::Run, WorkerPool::Rest::Drop}) {
    Gate gate;
    WorkerPool pool({.threads = 1});
    std::atomic<bool> begun{false};
    std::atomic<int> ran{0};
    pool.try_run([&] {
      begun = true;
      gate.pass();
    });
    expect_soon([&] { return begun.load(); });
    for (int i = 0; i < 5; ++i)
      pool.try_run([&ran, cargo = PoolCargo()] { ++ran; });
    std::thread opener([&] {
      expect_soon([&] { return !pool.try_run([] {}); });  // stopping
      gate.open();
    });
    pool.stop(soon(), rest);
    opener.join();
    EXPECT_EQ(ran, rest == WorkerPool::Rest::Run ? 5 : 0);
    EXPECT_EQ(PoolCargo::alive, 0);
  }
}

TEST(WorkerPoolStop, NamesHowManyAreLate) {
  Gate gate;
  WorkerPool pool({.name = "slow", .threads = 2});
  std::atomic<int> begun{0};
  for (int i = 0; i < 2; ++i)
    pool.try_run([&] {
      ++begun;
      gate.pass();
    });
  expect_soon([&] { return begun == 2; });
  for (int i = 0; i < 3; ++i)
    pool.try_run([] {});
  EXPECT_EQ(
      message_of<TimeoutError>([&] { pool.stop(Deadline::after(milliseconds(30))); }),
      "[rpc] expected all tasks of pool 'slow' to end within 30 ms, got 2 that still "
      "run "
      "and 3 that wait; give them more time, or look at what they do");
  gate.open();
  pool.stop(soon());
  EXPECT_EQ(pool.figures().started, 5u);
  pool.stop(soon());
}

TEST(WorkerPoolStop, OneOfItsOwnTasksMayStopIt) {
  WorkerPool pool({.threads = 3});
  Promise<void> promise;
  const auto stopped = promise.future();
  pool.try_run([&, promise = std::move(promise)]() mutable {
    pool.stop(soon());
    promise.set_value();
  });
  stopped.get(soon());
}

TEST(WorkerPoolStop, OneOfItsOwnTasksMayEndIt) {
  auto pool = std::make_shared<WorkerPool>(WorkerPoolOptions{.threads = 2});
  Promise<void> promise;
  const auto ended = promise.future();
  auto& running = *pool;
  running.try_run([pool = std::move(pool), promise = std::move(promise)]() mutable {
    pool.reset();
    promise.set_value();
  });
  ended.get(soon());
}

TEST(WorkerPoolStop, TheTasksThatAreDroppedMayUseIt) {
  Gate gate;
  WorkerPool pool({.threads = 1});
  std::atomic<bool> begun{false};
  pool.try_run([&] {
    begun = true;
    gate.pass();
  });
  expect_soon([&] { return begun.load(); });
  Promise<int> promise;
  const auto broken = promise.future();
  bool refused = false;
  const auto after = broken.handle([&](auto) { refused = !pool.try_run([] {}); });
  pool.try_run([promise = std::move(promise)] {});
  std::thread opener([&] {
    expect_soon([&] { return broken.ready(); });
    gate.open();
  });
  pool.stop(soon(), WorkerPool::Rest::Drop);
  opener.join();
  EXPECT_TRUE(refused);
}

TEST(WorkerPoolRaces, NothingIsLostBetweenManyThreads) {
  for (const int spin : {0, 20}) {
    WorkerPool pool(
        {.threads = 3,
         .spin = std::chrono::microseconds(spin),
         .idle = milliseconds(1)});
    constexpr int kEach = 5000;
    std::atomic<int> ran{0};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        std::minstd_rand random(i);
        for (int k = 0; k < kEach; ++k) {
          while (!pool.try_run([&] { ++ran; }))
            std::this_thread::yield();
          // So that the threads fall asleep again and again.
          if (random() % 64 == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
        }
      });
    for (auto& thread : threads)
      thread.join();
    expect_soon([&] { return ran == 4 * kEach; });
    pool.stop(soon());
    EXPECT_EQ(ran, 4 * kEach);
  }
}

TEST(WorkerPoolRaces, HandsOverOneByOne) {
  WorkerPool pool({.threads = 2, .idle = milliseconds(1)});
  for (int round = 0; round < 3000; ++round) {
    Promise<int> promise;
    auto done = promise.future();
    ASSERT_TRUE(pool.try_run(
        [promise = std::move(promise), round]() mutable { promise.set_value(round); }));
    ASSERT_EQ(std::move(done).get(soon()), round);
  }
}

TEST(WorkerPoolRaces, StopMeetsThoseWhoStillBring) {
  for (int round = 0; round < 200; ++round) {
    auto pool = std::make_unique<WorkerPool>(
        WorkerPoolOptions{.threads = 2, .idle = milliseconds(1)});
    std::atomic<int> taken{0}, ran{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i)
      threads.emplace_back([&] {
        while (pool->try_run([&ran, cargo = PoolCargo()] { ++ran; }))
          if (++taken > 100'000)
            break;
      });
    std::this_thread::sleep_for(std::chrono::microseconds(round));
    pool->stop(soon());
    for (auto& thread : threads)
      thread.join();
    EXPECT_EQ(ran, taken);
    EXPECT_EQ(PoolCargo::alive, 0);
  }
}

TEST(WorkerPoolRaces, ManyNestAtOnce) {
  WorkerPool pool({.threads = 2, .most = 64, .idle = milliseconds(1)});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 100; ++round)
        EXPECT_EQ(nest(pool, 10), 10);
    });
  for (auto& thread : threads)
    thread.join();
  EXPECT_EQ(pool.figures().blocked, 0);
}

}  // namespace trireme::rpc
