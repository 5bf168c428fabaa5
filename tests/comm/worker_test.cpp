// The thread behind async calls: its order, its errors and its end.
#include "trireme/comm/worker.h"

#include <atomic>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "scopes.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using testing::LogScope;
using testing::message_of;
using Lines = std::vector<std::string>;

void nothing() {}

TEST(Worker, NeedsNoThreadUntilTheFirstTask) {
  std::atomic<int> prepared{0};
  {
    Worker worker([&] { ++prepared; });
    worker.drain();
  }
  EXPECT_EQ(prepared.load(), 0);
}

TEST(Worker, PreparesItsOneThreadOnce) {
  std::vector<std::thread::id> threads;
  {
    Worker worker([&] { threads.push_back(std::this_thread::get_id()); });
    for (int i = 0; i < 3; ++i) {
      worker.push([&] { threads.push_back(std::this_thread::get_id()); }).wait();
    }
  }
  EXPECT_EQ(threads, std::vector<std::thread::id>(4, threads.at(0)));
  EXPECT_NE(threads[0], std::this_thread::get_id());
}

TEST(Worker, KeepsTheOrder) {
  std::vector<int> order;
  Worker worker(nothing);
  std::vector<Work> works;
  for (int i = 0; i < 200; ++i)
    works.push_back(worker.push([&order, i] { order.push_back(i); }));
  works.back().wait();
  std::vector<int> wanted(200);
  std::iota(wanted.begin(), wanted.end(), 0);
  EXPECT_EQ(order, wanted);
  for (const Work& work : works)
    EXPECT_TRUE(work.test());
}

TEST(Worker, DoesSomethingWhileItIsIdle) {
  std::atomic<int> calls{0};
  std::atomic<bool> at_work{false};
  std::atomic<bool> disturbed{false};
  {
    Worker worker(nothing, {.every = std::chrono::milliseconds(1), .call = [&] {
                              disturbed = disturbed || at_work;
                              ++calls;
                            }});
    const auto wait_for = [&](int wanted) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      while (calls < wanted && std::chrono::steady_clock::now() < end)
        std::this_thread::yield();
      return calls >= wanted;
    };
    EXPECT_TRUE(wait_for(3)) << "without any task";
    worker
        .push([&] {
          at_work = true;
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          at_work = false;
        })
        .wait();
    EXPECT_TRUE(wait_for(calls + 2)) << "and after it";
  }
  EXPECT_FALSE(disturbed);
}

TEST(Worker, DrainsWhatWasPushed) {
  std::atomic<int> ran{0};
  Worker worker(nothing);
  for (int round = 1; round <= 20; ++round) {
    for (int i = 0; i < 10; ++i)
      worker.push([&] { ++ran; });
    worker.drain();
    EXPECT_EQ(ran.load(), 10 * round);
  }
}

TEST(Worker, DrainsForSeveralThreads) {
  std::atomic<int> ran{0};
  Worker worker(nothing);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const int before = ran.load();
        worker.push([&] { ++ran; });
        worker.drain();
        EXPECT_GT(ran.load(), before);
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(ran.load(), 200);
}

TEST(Worker, RunsItsQueueBeforeItEnds) {
  std::atomic<int> ran{0};
  std::vector<Work> works;
  {
    Worker worker(nothing);
    for (int i = 0; i < 100; ++i)
      works.push_back(worker.push([&] { ++ran; }));
  }
  EXPECT_EQ(ran.load(), 100);
  for (const Work& work : works) {
    EXPECT_TRUE(work.test());
    work.wait();
  }
}

TEST(Worker, GivesEveryTaskItsOwnError) {
  Worker worker(nothing);
  const Work bad = worker.push([] { throw PeerError(3, "[comm] rank 3 is gone"); });
  const Work odd = worker.push([] { throw 42; });
  const Work good = worker.push(nothing);
  good.wait();  // errors do not end the thread
  EXPECT_EQ(message_of<PeerError>([&] { bad.wait(); }), "[comm] rank 3 is gone");
  EXPECT_THROW(odd.wait(), int);
}

TEST(Worker, LogsADroppedErrorOnce) {
  const LogScope log;
  {
    Worker worker(nothing);
    worker.push([] { throw TimeoutError("[comm] too slow"); });
    worker.push([] { throw 42; });
    EXPECT_THROW(
        worker.push([] { throw TimeoutError("[comm] seen"); }).wait(), TimeoutError);
  }
  const std::string start =
      "[trireme comm] error: nobody waited for an operation that failed";
  EXPECT_EQ(log.lines(), (Lines{start + ": [comm] too slow", start}));
}

TEST(Worker, LetsGoOfATaskBeforeItsWaiterGoesOn) {
  Worker worker(nothing);
  for (int i = 0; i < 50; ++i) {
    auto held = std::make_shared<int>(i);
    const std::weak_ptr<int> watch = held;
    worker.push([held = std::move(held)] {}).wait();
    EXPECT_TRUE(watch.expired());
  }
}

}  // namespace
}  // namespace trireme::comm
