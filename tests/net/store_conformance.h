// What every kind of store must do. A flavour is a struct with open(), which gives a
// store that all others of the same flavour object share: the same one, or another
// client.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "refusal.h"
#include "store_helpers.h"
#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/net/store.h"

namespace trireme::net {

template <class Flavour>
class StoreConformance : public ::testing::Test {};

TYPED_TEST_SUITE_P(StoreConformance);

TYPED_TEST_P(StoreConformance, GivesBackWhatWasSet) {
  TypeParam flavour;
  const auto store = flavour.open();
  store->set("a", "1");
  EXPECT_EQ(store->get("a", store_patience()), "1");
  EXPECT_EQ(flavour.open()->get("a", store_patience()), "1");
  store->set("a", "22");
  EXPECT_EQ(store->try_get("a"), "22");
  EXPECT_EQ(store->try_get("b"), std::nullopt);
}

TYPED_TEST_P(StoreConformance, TakesAnyBytes) {
  TypeParam flavour;
  const auto store = flavour.open();
  std::string all;
  for (int byte = 0; byte < 256; ++byte)
    all.push_back(static_cast<char>(byte));
  for (const char byte : all)
    store->set(std::string(1, byte), all);
  store->set(all, "");
  EXPECT_EQ(store->try_get(all), "");
  EXPECT_EQ(store->keys("").size(), 257u);
  for (const char byte : all)
    EXPECT_EQ(store->try_get(std::string(1, byte)), all) << int{byte};
}

TYPED_TEST_P(StoreConformance, GetWaitsForTheKey) {
  TypeParam flavour;
  const auto store = flavour.open();
  std::thread setter([other = flavour.open()] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    other->set("late", "here");
  });
  EXPECT_EQ(store->get("late", store_patience()), "here");
  setter.join();
}

TYPED_TEST_P(StoreConformance, GetGivesUpAtItsDeadline) {
  TypeParam flavour;
  const auto store = flavour.open();
  store->set("here", "1");
  const auto get = [&](const char* key, int milliseconds) {
    return store->get(key, Deadline::after(std::chrono::milliseconds(milliseconds)));
  };
  const double seconds = seconds_of([&] {
    EXPECT_EQ(
        refusal_of<TimeoutError>([&] { get("absent", 100); }),
        text(
            "[net] expected the key in the store within 100 ms, got everything but \"",
            TypeParam::kPrefix,
            "absent\"; check that whoever sets it has started and still runs"));
  });
  EXPECT_GE(seconds, 0.1);
  EXPECT_LT(seconds, 10);
  // A deadline that has passed is no reason to withhold what is there.
  EXPECT_EQ(get("here", -1), "1");
  EXPECT_THROW(get("absent", -1), TimeoutError);
}

TYPED_TEST_P(StoreConformance, AddsNumbers) {
  TypeParam flavour;
  const auto store = flavour.open();
  EXPECT_EQ(store->add("n", 3), 3);
  EXPECT_EQ(store->add("n", -5), -2);
  EXPECT_EQ(store->add("n", 0), -2);
  EXPECT_EQ(store->try_get("n"), "-2");
  store->set("n", "9223372036854775806");
  EXPECT_EQ(store->add("n", 1), 9223372036854775807);
  EXPECT_EQ(
      refusal_of([&] { store->add("n", 1); }),
      text(
          "[net] expected a sum of 64 bits under the store key \"",
          TypeParam::kPrefix,
          "n\", got 9223372036854775807 and 1; erase the key to begin again at 0"));
  for (const char* value : {"", "x", "1 ", "+1", "9223372036854775808"}) {
    store->set("t", value);
    EXPECT_THROW(store->add("t", 1), InvalidArgument) << value;
    EXPECT_EQ(store->try_get("t"), value);
  }
}

TYPED_TEST_P(StoreConformance, LosesNoAddition) {
  TypeParam flavour;
  constexpr int kThreads = 16;
  constexpr int kTimes = 40;
  std::mutex mutex;
  std::set<std::int64_t> sums;
  // Half of them share a client.
  const auto shared = flavour.open();
  on_threads(kThreads, [&](int thread) {
    const auto store = thread % 2 == 0 ? shared : flavour.open();
    for (int i = 0; i < kTimes; ++i) {
      const std::int64_t sum = store->add("sum", 1);
      const std::lock_guard lock(mutex);
      sums.insert(sum);
    }
  });
  EXPECT_EQ(sums.size(), std::size_t{kThreads * kTimes});
  EXPECT_EQ(*sums.rbegin(), kThreads * kTimes);
}

TYPED_TEST_P(StoreConformance, ComparesAndSets) {
  TypeParam flavour;
  const auto store = flavour.open();
  StoreSwap swap = store->compare_set("k", "old", "new");
  EXPECT_FALSE(swap.swapped);
  EXPECT_EQ(swap.value, std::nullopt);
  swap = store->compare_set("k", std::nullopt, "");
  EXPECT_TRUE(swap.swapped);
  EXPECT_EQ(swap.value, "");
  // Empty is not absent.
  swap = store->compare_set("k", std::nullopt, "b");
  EXPECT_FALSE(swap.swapped);
  EXPECT_EQ(swap.value, "");
  swap = store->compare_set("k", "", "b");
  EXPECT_TRUE(swap.swapped);
  EXPECT_EQ(swap.value, "b");
  swap = store->compare_set("k", "c", "d");
  EXPECT_FALSE(swap.swapped);
  EXPECT_EQ(swap.value, "b");
  EXPECT_EQ(store->try_get("k"), "b");
}

TYPED_TEST_P(StoreConformance, ComparedByManyHasOneWinner) {
  TypeParam flavour;
  constexpr int kThreads = 8;
  constexpr int kRounds = 15;
  std::vector<std::shared_ptr<Store>> stores;
  for (int i = 0; i < kThreads; ++i)
    stores.push_back(flavour.open());
  std::mutex mutex;
  std::vector<std::string> winners[kRounds];
  on_threads(kThreads, [&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      const std::string own = std::to_string(thread);
      const std::string key = text("lead/", round);
      const StoreSwap swap = stores[thread]->compare_set(key, std::nullopt, own);
      EXPECT_EQ(swap.swapped, swap.value == own);
      if (!swap.swapped)
        continue;
      const std::lock_guard lock(mutex);
      winners[round].push_back(own);
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    ASSERT_EQ(winners[round].size(), 1u);
    EXPECT_EQ(stores[0]->try_get(text("lead/", round)), winners[round].front());
  }
}

TYPED_TEST_P(StoreConformance, WaitsForAllKeysAtOnce) {
  TypeParam flavour;
  const auto store = flavour.open();
  store->wait({}, store_patience());
  store->set("a", "");
  store->wait({"a", "a"}, store_patience());
  std::thread setter([other = flavour.open()] {
    other->set("b", "");
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    other->set("c", "");
  });
  store->wait({"c", "a", "b"}, store_patience());
  setter.join();
  EXPECT_EQ(store->keys(""), (std::vector<std::string>{"a", "b", "c"}));
}

TYPED_TEST_P(StoreConformance, AWaitNamesWhatIsMissing) {
  TypeParam flavour;
  const auto store = flavour.open();
  store->set("b", "");
  EXPECT_EQ(
      refusal_of<TimeoutError>([&] {
        store->wait({"a", "b", "c\n"}, Deadline::after(std::chrono::milliseconds(50)));
      }),
      text(
          "[net] expected all of 3 keys in the store within 50 ms, got everything but "
          "\"",
          TypeParam::kPrefix,
          "a\", \"",
          TypeParam::kPrefix,
          "c\\n\"; check that whoever sets them has started and still runs"));
}

TYPED_TEST_P(StoreConformance, AWaitDoesNotCountWhatWasErased) {
  TypeParam flavour;
  const auto store = flavour.open();
  const auto other = flavour.open();
  std::thread waiter([&] {
    EXPECT_THROW(
        store->wait({"a", "b"}, Deadline::after(std::chrono::milliseconds(400))),
        TimeoutError);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  other->set("a", "");
  EXPECT_TRUE(other->erase("a"));
  other->set("b", "");
  waiter.join();
  other->set("a", "");
  store->wait({"a", "b"}, store_patience());
}

TYPED_TEST_P(StoreConformance, ManyWaitAndAllWake) {
  TypeParam flavour;
  const auto shared = flavour.open();
  on_threads(16, [&](int thread) {
    const auto store = thread % 2 == 0 ? shared : flavour.open();
    store->set(text("in/", thread), std::to_string(thread));
    std::vector<std::string> keys;
    for (int i = 0; i < 16; ++i)
      keys.push_back(text("in/", i));
    store->wait(keys, store_patience());
    const int next = (thread + 1) % 16;
    EXPECT_EQ(store->get(text("in/", next), store_patience()), std::to_string(next));
  });
}

TYPED_TEST_P(StoreConformance, Erases) {
  TypeParam flavour;
  const auto store = flavour.open();
  EXPECT_FALSE(store->erase("a"));
  store->set("a", "1");
  EXPECT_TRUE(store->erase("a"));
  EXPECT_FALSE(store->erase("a"));
  EXPECT_EQ(store->try_get("a"), std::nullopt);
  EXPECT_EQ(store->add("a", 1), 1);
}

TYPED_TEST_P(StoreConformance, ListsKeysByPrefixInOrder) {
  TypeParam flavour;
  const auto store = flavour.open();
  for (const char* key : {"b/2", "b/10", "a", "b", "b/", "c", "b\xff", "b/\xff"})
    store->set(key, "");
  using Keys = std::vector<std::string>;
  EXPECT_EQ(store->keys("b/"), (Keys{"b/", "b/10", "b/2", "b/\xff"}));
  EXPECT_EQ(store->keys("b\xff"), (Keys{"b\xff"}));
  EXPECT_EQ(store->keys("d"), Keys{});
  EXPECT_EQ(store->keys("").size(), 8u);
}

TYPED_TEST_P(StoreConformance, ListsMoreKeysThanOneMessageHolds) {
  TypeParam flavour;
  const auto store = flavour.open();
  std::vector<std::string> keys;
  for (int i = 0; i < 600; ++i)
    keys.push_back(text("key/", 1000 + i, "/", std::string(900, 'x')));
  for (const std::string& key : keys)
    store->set(key, "");
  EXPECT_EQ(store->keys("key/"), keys);
  store->wait(keys, store_patience());
}

TYPED_TEST_P(StoreConformance, HoldsKeysAndValuesToTheirLimits) {
  TypeParam flavour;
  const auto store = flavour.open();
  const std::string longest(
      kStoreKeyBytes - std::string(TypeParam::kPrefix).size(), 'k');
  const std::string largest(kStoreValueBytes, 'v');
  store->set(longest, largest);
  EXPECT_EQ(store->get(longest, store_patience()), largest);
  EXPECT_TRUE(store->compare_set(longest, largest, std::string(largest)).swapped);
  EXPECT_EQ(
      refusal_of([&] { store->set("", "1"); }),
      "[net] expected a store key of 1 to 1024 bytes, got 0; choose another key");
  EXPECT_THROW(store->set(longest + "k", ""), InvalidArgument);
  EXPECT_THROW(store->try_get(""), InvalidArgument);
  EXPECT_THROW(store->add(longest + "k", 1), InvalidArgument);
  EXPECT_THROW(store->wait({"a", ""}, store_patience()), InvalidArgument);
  EXPECT_THROW(store->keys(longest + "k"), InvalidArgument);
  EXPECT_EQ(
      refusal_of([&] { store->set("a", largest + "v"); }),
      "[net] expected a store value of at most 1048576 bytes, got 1048577; the store "
      "is "
      "for addresses and counters, so send large data another way");
  EXPECT_THROW(store->compare_set("a", std::nullopt, largest + "v"), InvalidArgument);
  EXPECT_EQ(store->keys("").size(), 1u);
}

TYPED_TEST_P(StoreConformance, RefusesMoreThanItsMemory) {
  TypeParam flavour({.total_bytes = 10'000, .waiting_bytes = 10'000});
  const auto store = flavour.open();
  const std::string value(1000, 'v');
  int taken = 0;
  std::string refused;
  for (; taken < 100 && refused.empty(); ++taken) {
    try {
      store->set(text("key", taken), value);
    } catch (const InvalidArgument& error) {
      refused = error.what();
    }
  }
  EXPECT_NE(
      refused.find("expected at most 10000 bytes in the store, got 10"),
      std::string::npos)
      << refused;
  EXPECT_GE(taken, 8);
  EXPECT_LE(taken, 10);
  // What is there can be replaced a thousand times, and what is erased makes room.
  for (int i = 0; i < 50; ++i)
    store->set("key0", value);
  EXPECT_TRUE(store->erase("key0"));
  store->set("other", value);
}

TYPED_TEST_P(StoreConformance, WatchesChangesInOrder) {
  TypeParam flavour;
  const auto store = flavour.open();
  const auto other = flavour.open();
  store->set("w/before", "");
  StoreChanges changes;
  auto watch = store->watch("w/", changes.callback());
  other->set("w/a", "1");
  other->add("w/n", 5);
  store->set("v", "not seen");
  other->compare_set("w/a", "1", "2");
  store->compare_set("w/a", "1", "3");
  other->erase("w/a");
  store->erase("w/absent");
  store->set("w/end", "");
  EXPECT_EQ(
      changes.wait_for(5),
      (std::vector<StoreChange>{
          was_set("w/a", "1"),
          was_set("w/n", "5"),
          was_set("w/a", "2"),
          was_erased("w/a"),
          was_set("w/end", "")}));
  watch.stop();
  store->set("w/later", "");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(changes.now().size(), 5u);
}

TYPED_TEST_P(StoreConformance, ManyWatchersSeeAll) {
  TypeParam flavour;
  const auto shared = flavour.open();
  const auto other = flavour.open();
  constexpr int kWatchers = 40;
  std::vector<StoreChanges> changes(kWatchers);
  std::vector<StoreWatch> watches;
  for (int i = 0; i < kWatchers; ++i)
    watches.push_back((i % 2 == 0 ? shared : other)->watch("c", changes[i].callback()));
  on_threads(4, [&](int) {
    for (int i = 0; i < 10; ++i)
      other->add("count", 1);
  });
  for (StoreChanges& one : changes) {
    const auto seen = one.wait_for(40);
    ASSERT_EQ(seen.size(), 40u);
    for (int i = 0; i < 40; ++i)
      EXPECT_EQ(seen[i], was_set("count", std::to_string(i + 1)));
  }
}

TYPED_TEST_P(StoreConformance, AWatcherMayUseTheStoreAndThrow) {
  std::mutex mutex;
  std::vector<std::string> lines;
  const auto sink = set_log_sink([&](std::string_view line) {
    const std::lock_guard lock(mutex);
    lines.emplace_back(line);
  });
  TypeParam flavour;
  const auto store = flavour.open();
  auto watch = store->watch("in", [&](const StoreChange& change) {
    store->set("out", change.value + store->try_get("in").value_or(""));
    throw std::runtime_error("a watcher that throws");
  });
  store->set("in", "x");
  EXPECT_EQ(store->get("out", store_patience()), "xx");
  store->erase("out");
  store->set("in", "y");
  EXPECT_EQ(store->get("out", store_patience()), "yy");
  watch.stop();
  const std::lock_guard lock(mutex);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find("a watcher that throws"), std::string::npos);
}

TYPED_TEST_P(StoreConformance, AWatchMayOutliveItsStore) {
  TypeParam flavour;
  auto store = flavour.open();
  StoreChanges changes;
  StoreWatch watch = store->watch("", changes.callback());
  store->set("a", "1");
  EXPECT_EQ(changes.wait_for(1).size(), 1u);
  store.reset();
}

TYPED_TEST_P(StoreConformance, AStoreMayEndWhileItsWatcherUsesIt) {
  if (*TypeParam::kPrefix != 0)
    return;  // its watches are those of the whole, and end with that
  // One that is cut off from its server throws.
  const auto quiet = set_log_sink([](std::string_view) {});
  TypeParam flavour;
  for (int round = 0; round < 5; ++round) {
    auto store = flavour.open();
    Store* raw = store.get();
    std::atomic<int> calls = 0;
    StoreWatch watch = store->watch("", [&calls, raw](const StoreChange&) {
      ++calls;
      raw->try_get("a");
    });
    for (int i = 0; i < 20; ++i)
      store->set("a", "1");
    while (calls == 0)
      std::this_thread::yield();
    store.reset();
  }
}

TYPED_TEST_P(StoreConformance, ASlowWatcherIsToldThatItMissedSomething) {
  TypeParam flavour;
  const auto store = flavour.open();
  std::mutex gate;
  std::unique_lock closed(gate);
  StoreChanges changes;
  auto watch = store->watch("big", [&](const StoreChange& change) {
    const std::lock_guard wait(gate);
    changes.callback()(change);
  });
  const std::string value(kStoreValueBytes, 'v');
  for (int i = 0; i < 20; ++i)
    store->set(text("big/", i % 4), value);
  // The others are not held up.
  store->set("small", "1");
  EXPECT_EQ(store->try_get("small"), "1");
  closed.unlock();
  const auto is_lost = [](const StoreChange& change) {
    return change.kind == StoreChange::Kind::Lost;
  };
  // It goes on behind the gap.
  store->set("big/end", "");
  const auto seen = changes.wait_for_last(was_set("big/end", ""));
  EXPECT_LT(seen.size(), 21u);
  EXPECT_GE(std::count_if(seen.begin(), seen.end(), is_lost), 1);
}

REGISTER_TYPED_TEST_SUITE_P(
    StoreConformance,
    GivesBackWhatWasSet,
    TakesAnyBytes,
    GetWaitsForTheKey,
    GetGivesUpAtItsDeadline,
    AddsNumbers,
    LosesNoAddition,
    ComparesAndSets,
    ComparedByManyHasOneWinner,
    WaitsForAllKeysAtOnce,
    AWaitNamesWhatIsMissing,
    AWaitDoesNotCountWhatWasErased,
    ManyWaitAndAllWake,
    Erases,
    ListsKeysByPrefixInOrder,
    ListsMoreKeysThanOneMessageHolds,
    HoldsKeysAndValuesToTheirLimits,
    RefusesMoreThanItsMemory,
    WatchesChangesInOrder,
    ManyWatchersSeeAll,
    AWatcherMayUseTheStoreAndThrow,
    AWatchMayOutliveItsStore,
    AStoreMayEndWhileItsWatcherUsesIt,
    ASlowWatcherIsToldThatItMissedSomething);

}  // namespace trireme::net
