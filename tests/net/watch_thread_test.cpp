#include "trireme/net/watch_thread.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "store_helpers.h"

namespace trireme::net {
namespace {

std::shared_ptr<const StoreChange> change_of(std::string key, std::string value = "") {
  return std::make_shared<const StoreChange>(was_set(std::move(key), std::move(value)));
}

TEST(WatchThread, CallsEachWatcherInOrder) {
  StoreChanges first;
  StoreChanges second;
  WatchThread thread;
  thread.add(1, first.callback());
  thread.add(2, second.callback());
  for (int i = 0; i < 100; ++i) {
    thread.push(1, change_of(std::to_string(i)));
    if (i % 2 == 0)
      thread.push(2, change_of(std::to_string(i)));
  }
  thread.push(3, change_of("nobody's"));
  const auto seen = first.wait_for(100);
  ASSERT_EQ(seen.size(), 100u);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(seen[i].key, std::to_string(i));
  EXPECT_EQ(second.wait_for(50).size(), 50u);
}

TEST(WatchThread, DropsWhatASlowWatcherDoesNotTake) {
  std::mutex gate;
  std::unique_lock closed(gate);
  StoreChanges slow;
  StoreChanges quick;
  WatchThread thread(10 * (kStoreEntryBytes + 2));
  std::promise<void> called;
  thread.add(1, [&, first = true](const StoreChange& change) mutable {
    if (std::exchange(first, false))
      called.set_value();
    const std::lock_guard wait(gate);
    slow.callback()(change);
  });
  thread.push(1, change_of("10"));
  called.get_future().wait();  // or it might find a gap, and leave another behind it
  for (int i = 1; i < 40; ++i)
    thread.push(1, change_of(std::to_string(10 + i)));
  closed.unlock();
  const auto seen = slow.wait_for_last(was_set("49", ""));
  EXPECT_LT(seen.size(), 40u);
  EXPECT_EQ(
      std::count(
          seen.begin(), seen.end(), StoreChange{.kind = StoreChange::Kind::Lost}),
      1);
  // Behind the gap nothing is missing.
  const auto gap =
      std::find(seen.begin(), seen.end(), StoreChange{.kind = StoreChange::Kind::Lost});
  int next = std::stoi(std::next(gap)->key);
  for (auto at = std::next(gap); at != seen.end(); ++at)
    EXPECT_EQ(at->key, std::to_string(next++));
}

TEST(WatchThread, RemoveWaitsForTheCallThatRuns) {
  WatchThread thread;
  std::atomic<bool> entered = false;
  std::atomic<bool> left = false;
  thread.add(1, [&](const StoreChange&) {
    entered = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    left = true;
  });
  thread.push(1, change_of("a"));
  thread.push(1, change_of("b"));
  while (!entered)
    std::this_thread::yield();
  thread.remove(1);
  EXPECT_TRUE(left);
  left = false;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(left);
}

TEST(WatchThread, AWatcherMayEndItselfAndTheThread) {
  auto thread = std::make_shared<WatchThread>();
  StoreWatch own;
  std::atomic<int> calls = 0;
  std::atomic<bool> told = false;
  own = thread->handle(1, [&] { told = true; });
  StoreChanges other;
  thread->add(2, other.callback());
  thread->add(1, [&](const StoreChange&) {
    own.stop();
    ++calls;
  });
  thread->push(1, change_of("a"));
  thread->push(1, change_of("b"));
  thread->push(2, change_of("c"));
  other.wait_for(1);
  while (calls == 0)
    std::this_thread::yield();
  EXPECT_TRUE(told);
  EXPECT_EQ(calls, 1);

  std::atomic<bool> gone = false;
  thread->add(3, [&](const StoreChange&) {
    thread.reset();
    gone = true;
  });
  thread->push(3, change_of("end"));
  while (!gone)
    std::this_thread::yield();
  EXPECT_EQ(thread, nullptr);
}

}  // namespace
}  // namespace trireme::net
