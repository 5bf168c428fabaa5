#include "trireme/rpc/batcher.h"

#include <numeric>

#include <gtest/gtest.h>

#include "trireme/rpc/agent.h"
#include "trireme/rpc/future_all.h"
#include "trireme/testing/rpc_world.h"

namespace trireme::rpc {
namespace {

using std::chrono::microseconds;

TEST(Batcher, WorksOffFullBatchesAtOnceAndTheRestInTime) {
  std::vector<std::size_t> sizes;
  std::vector<Future<int>> results;
  {
    Batcher<int, int> doubles(
        [&](std::vector<int> batch) {
          sizes.push_back(batch.size());
          for (int& number : batch)
            number *= 2;
          return batch;
        },
        {.most = 4, .wait = std::chrono::seconds(20)});
    for (int i = 0; i < 8; ++i)
      results.push_back(doubles(i));
    for (int i = 0; i < 8; ++i)
      EXPECT_EQ(results[static_cast<std::size_t>(i)].get(), 2 * i);
    results.push_back(doubles(21));
  }
  EXPECT_EQ(results.back().get(), 42) << "the end works off what is there";
  EXPECT_EQ(sizes, (std::vector<std::size_t>{4, 4, 1}));
  Batcher<int, int> soon(
      [](std::vector<int> batch) { return batch; },
      {.most = 100, .wait = microseconds(500)});
  EXPECT_EQ(soon(7).get(Deadline::after(std::chrono::seconds(10))), 7);
}

TEST(Batcher, WhatGoesWrongGoesToAllOfTheBatch) {
  Batcher<int, int> fails(
      [](std::vector<int>) -> std::vector<int> { throw std::runtime_error("no"); },
      {.most = 2});
  const auto one = fails(1), two = fails(2);
  EXPECT_THROW(one.get(), std::runtime_error);
  EXPECT_THROW(two.get(), std::runtime_error);
  Batcher<int, int> forgets(
      [](std::vector<int>) { return std::vector<int>{}; }, {.most = 1});
  EXPECT_THROW(forgets(1).get(), InvalidArgument);
  EXPECT_THROW(
      (Batcher<int, int>([](std::vector<int> in) { return in; }, {.most = 0})),
      InvalidArgument);
}

TEST(BatcherRanks, GathersCallsOfManyWorkers) {
  std::size_t largest = 0;
  Batcher<int, int> sums(
      [&](std::vector<int> batch) {
        largest = std::max(largest, batch.size());
        const int sum = std::accumulate(batch.begin(), batch.end(), 0);
        return std::vector<int>(batch.size(), sum);
      },
      {.most = 3, .wait = std::chrono::seconds(10)});
  FunctionTable functions;
  functions.add("sum", [&](int number) { return sums(number); });
  testing::run_rpc(
      testing::RpcKind::Threads, 3, {.functions = functions}, [&](Agent& agent) {
        EXPECT_EQ(agent.to(0).call<int>("sum", 1 + agent.me().id), 6);
      });
  EXPECT_EQ(largest, 3u);
}

}  // namespace
}  // namespace trireme::rpc
