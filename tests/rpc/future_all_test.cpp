#include "trireme/rpc/future_all.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cargo.h"
#include "trireme/rpc/cancelled.h"
#include "trireme/testing/message.h"

namespace trireme::rpc {
namespace {

using trireme::testing::message_of;
using AllCargo = Cargo<struct FutureAllTest>;

template <class T>
std::vector<Future<T>> futures_of(const std::vector<Promise<T>>& promises) {
  std::vector<Future<T>> futures;
  for (const auto& promise : promises)
    futures.push_back(promise.future());
  return futures;
}

}  // namespace

TEST(FutureAll, HasAllValuesInOrder) {
  std::vector<Promise<int>> promises(3);
  const auto end = all(futures_of(promises));
  promises[2].set_value(2);
  promises[0].set_value(0);
  EXPECT_FALSE(end.ready());
  promises[1].set_value(1);
  EXPECT_EQ(end.get(), (std::vector<int>{0, 1, 2}));
}

TEST(FutureAll, OfNothingIsReady) {
  EXPECT_TRUE(all(std::vector<Future<int>>{}).get().empty());
  all(std::vector<Future<void>>{}).get();
}

TEST(FutureAll, OfVoidWaitsForAll) {
  std::vector<Promise<void>> promises(2);
  const auto end = all(futures_of(promises));
  promises[0].set_value();
  EXPECT_FALSE(end.ready());
  promises[1].set_value();
  end.get();
}

TEST(FutureAll, OfBoolsAndOfWhatOnlyMoves) {
  std::vector<Future<bool>> bools{ready_future(true), ready_future(false)};
  EXPECT_EQ(all(bools).get(), (std::vector<bool>{true, false}));
  std::vector<Future<std::unique_ptr<int>>> moved;
  moved.push_back(ready_future(std::make_unique<int>(4)));
  EXPECT_EQ(*all(std::move(moved)).get()[0], 4);
}

TEST(FutureAll, FailsAtOnceWithTheFirstError) {
  std::vector<Promise<int>> promises(3);
  const auto end = all(futures_of(promises));
  promises[1].set_exception(std::make_exception_ptr(std::runtime_error("one")));
  EXPECT_TRUE(end.ready());
  promises[0].set_exception(std::make_exception_ptr(std::runtime_error("two")));
  promises[2].set_value(1);
  EXPECT_EQ(message_of<std::runtime_error>([&] { end.get(); }), "one");
}

TEST(FutureAll, CancelsAll) {
  std::vector<Promise<int>> promises(3);
  const auto futures = futures_of(promises);
  int told = 0;
  for (auto& promise : promises)
    promise.on_cancel([&](const std::string&) { ++told; });
  promises[0].set_value(1);
  const auto end = all(futures);
  EXPECT_TRUE(end.cancel());
  EXPECT_EQ(told, 2);
  EXPECT_THROW(end.get(), Cancelled);
  EXPECT_THROW(futures[2].get(), Cancelled);
}

TEST(FutureAll, AnEmptyFutureIsRefused) {
  EXPECT_EQ(
      message_of<InvalidArgument>([] { all(std::vector<Future<int>>(2)); }),
      "[rpc] expected a future of something, got an empty one; assign it what a call "
      "returns first");
}

TEST(FutureAll, KeepsNothing) {
  {
    std::vector<Promise<AllCargo>> promises(4);
    const auto end = all(futures_of(promises));
    for (auto& promise : promises)
      promise.set_value(1);
    EXPECT_EQ(end.get().size(), 4u);
    all(futures_of(promises));
  }
  EXPECT_EQ(AllCargo::alive, 0);
}

TEST(FutureAll, ThreadsEndTheParts) {
  for (int round = 0; round < 500; ++round) {
    std::vector<Promise<int>> promises(3);
    const auto futures = futures_of(promises);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([promise = std::move(promises[static_cast<std::size_t>(i)]),
                            i]() mutable { promise.set_value(i); });
    EXPECT_EQ(all(futures).get(), (std::vector<int>{0, 1, 2}));
    for (auto& thread : threads)
      thread.join();
  }
}

}  // namespace trireme::rpc
