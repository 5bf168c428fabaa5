// Reductions over hosts have the bits of one host, for every dtype, op and size.
#include <atomic>
#include <cstring>
#include <iostream>
#include <mutex>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "local_hosts.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/reduce_kernel.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

constexpr int kRanks = 4;

struct Case {
  at::ScalarType dtype;
  ReduceOp op;
  int64_t count;
};

at::Tensor input(const Case& c, int rank, int64_t count) {
  at::Tensor x = at::empty({count}, c.dtype);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(17 + rank);
  if (at::isFloatingType(c.dtype))
    x.copy_(at::randn({count}, generator, at::kFloat) * 3);
  else
    x.copy_(at::randint(0, 100, {count}, generator, at::kLong));
  return x;
}

// What every rank has after all_reduce, reduce to 2 and reduce_scatter.
std::vector<at::Tensor> reduce_all(const Group& world, const Case& c) {
  at::Tensor all = input(c, world.rank(), c.count);
  at::Tensor one = all.clone();
  at::Tensor parts = input(c, world.rank(), c.count * kRanks);
  at::Tensor part = at::empty({c.count}, c.dtype);
  all_reduce(world, all, {.op = c.op});
  reduce(world, one, 2, {.op = c.op});
  reduce_scatter(world, part, parts, {.op = c.op});
  return {all, one, part};
}

using Results = std::vector<std::vector<at::Tensor>>;

std::function<void(const Group&)> collect(
    const std::vector<Case>& cases, std::vector<Results>& out) {
  out.assign(cases.size(), Results(kRanks));
  return [&cases, &out](const Group& world) {
    for (size_t i = 0; i < cases.size(); ++i)
      out[i][static_cast<size_t>(world.rank())] = reduce_all(world, cases[i]);
  };
}

std::vector<Case> all_cases(std::vector<int64_t> counts) {
  std::vector<Case> cases;
  for (const at::ScalarType dtype :
       {at::kFloat,
        at::kDouble,
        at::kHalf,
        at::kBFloat16,
        at::kByte,
        at::kChar,
        at::kShort,
        at::kInt,
        at::kLong,
        at::kBool})
    for (const ReduceOp op :
         {ReduceOp::Sum,
          ReduceOp::Mean,
          ReduceOp::Min,
          ReduceOp::Max,
          ReduceOp::Product,
          ReduceOp::BitAnd,
          ReduceOp::BitOr})
      if (reduce_kernels_of(best_isa(), op, dtype).reduce != nullptr)
        for (const int64_t count : counts)
          cases.push_back({dtype, op, count});
  return cases;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == b.numel() &&
         (a.numel() == 0 || std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0);
}

void expect_same_bits(
    const std::vector<Case>& cases,
    const std::vector<int>& hosts,
    const WireTuning& tuning = {}) {
  std::vector<Results> expected, got;
  run_local(kRanks, collect(cases, expected));
  run_hosts(hosts, collect(cases, got), tuning);
  for (size_t i = 0; i < cases.size(); ++i)
    for (size_t rank = 0; rank < kRanks; ++rank)
      for (size_t k = 0; k < 3; ++k)
        EXPECT_TRUE(same_bits(got[i][rank][k], expected[i][rank][k]))
            << to_string(cases[i].op) << " " << dtype_name(cases[i].dtype) << "["
            << cases[i].count << "], rank " << rank << ", call " << k << ", "
            << hosts.size() << " hosts";
}

const std::vector<std::vector<int>> kLayouts = {
    {2, 2}, {3, 1}, {1, 3}, {1, 1, 2}, {1, 1, 1, 1}};

TEST(ChainRanks, HasTheBitsOfOneHost) {
  for (const auto& hosts : kLayouts)
    expect_same_bits(all_cases({0, 1, 7, 33, 1001, 40003}), hosts);
}

TEST(ChainRanks, HasTheBitsOfOneHostInShortPieces) {
  for (const auto& hosts : kLayouts)
    expect_same_bits(
        all_cases({1, 64, 65, 3001}), hosts, {.small_bytes = 0, .chain_bytes = 1});
}

TEST(ChainRanks, HasTheBitsOfOneHostInLongOnes) {
  expect_same_bits(
      {{at::kBFloat16, ReduceOp::Mean, 1000003}, {at::kFloat, ReduceOp::Sum, 1500007}},
      {2, 2});
}

// Over links that are slow, all of them are busy all the time: one all_reduce takes
// what its bytes take over one link, and a little to fill the pipeline, where hosts
// that waited for one another would take that six times.
TEST(ChainRanks, ThePipelineOfFourHostsIsFull) {
  constexpr double kRate = 10e6;
  constexpr int64_t kCount = 500'000;
  LocalHosts hosts({1, 2, 1, 1}, {.chain_bytes = 32 << 10});
  hosts.limit(kRate);
  std::atomic<double> took{0};
  run_threads(
      hosts.ranks(),
      [&](int rank, const Deadline& deadline) { return hosts.join(rank, deadline); },
      [&](const Group& world) {
        at::Tensor x = at::ones({kCount});
        barrier(world);
        const auto start = std::chrono::steady_clock::now();
        all_reduce(world, x);
        barrier(world);
        if (world.rank() == 0)
          took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
                     .count();
        EXPECT_EQ(x[kCount - 1].item<float>(), 5.0F);
      });
  const double link = 4.0 * kCount / kRate;
  RecordProperty("links_worth_of_time", std::to_string(took / link));
  std::cout << "all_reduce of 2 MB over 4 hosts: " << took * 1e3 << " ms, of which one "
            << "link takes " << link * 1e3 << " ms" << std::endl;
  EXPECT_LT(took, 3 * link);  // sanitizers are slow
}

TEST(ChainRanks, InAnyOrderIsNearTheSum) {
  for (const auto& hosts : kLayouts) {
    const LocalHosts world(hosts, {.small_bytes = 0});
    std::vector<std::thread> threads;
    std::mutex mutex;
    std::vector<at::Tensor> results;
    for (int rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank] {
        const auto timeout = std::chrono::seconds(30);
        const Group group(
            world.join(rank, Deadline::after(timeout)),
            {.timeout = timeout, .order = SumOrder::Any});
        for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
          const Case c{
              dtype, dtype == at::kLong ? ReduceOp::Sum : ReduceOp::Mean, 5003};
          const auto got = reduce_all(group, c);
          at::Tensor sum = at::zeros({5003}, at::kDouble);
          at::Tensor parts = at::zeros({5003 * kRanks}, at::kDouble);
          for (int k = 0; k < kRanks; ++k) {
            sum += input(c, k, 5003).to(at::kDouble);
            parts += input(c, k, 5003 * kRanks).to(at::kDouble);
          }
          const double ranks = dtype == at::kLong ? 1 : kRanks;
          const double near = dtype == at::kBFloat16 ? 0.05 : 1e-5;
          const auto check = [&](const at::Tensor& a, const at::Tensor& b) {
            EXPECT_TRUE(at::allclose(a.to(at::kDouble), b / ranks, near, near));
          };
          check(got[0], sum);
          if (rank == 2)
            check(got[1], sum);
          check(got[2], parts.slice(0, rank * 5003, (rank + 1) * 5003));
          const std::lock_guard lock(mutex);
          if (dtype == at::kBFloat16)
            results.push_back(got[0]);
        }
      });
    for (std::thread& thread : threads)
      thread.join();
    for (const at::Tensor& each : results)
      EXPECT_TRUE(same_bits(each, results[0]));
  }
}

TEST(ChainRanks, AnyOrderAndTheOrderOfRanksDoNotMeet) {
  const std::string words = describe(signature(
      {.kind = CollectiveKind::AllReduce, .count = 3, .order = SumOrder::Any}));
  EXPECT_EQ(words, "all_reduce sum uint8[3] in any order");
}

}  // namespace
}  // namespace trireme::comm
