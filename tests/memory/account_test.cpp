// Tensors are charged to the account of the thread that made them, to the byte.
#include "trireme/memory/account.h"

#include <optional>
#include <thread>
#include <vector>

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "trireme/memory/caching_allocator.h"

namespace trireme::memory {
namespace {

at::Tensor tensor_of(std::int64_t bytes) {
  return at::empty({bytes}, at::kByte);
}

class AccountCase : public ::testing::Test {
 protected:
  AccountCase() { install_caching_allocator(); }
};

using AccountUnit = AccountCase;
using AccountRanks = AccountCase;

TEST_F(AccountUnit, CountsWhatWasAskedFor) {
  MemoryAccount account;
  EXPECT_EQ(account.live(), 0);
  const AccountScope scope(account);
  at::Tensor a = tensor_of(1001);
  EXPECT_EQ(account.live(), 1001) << "not the size of the block";
  at::Tensor b = tensor_of(7);
  const at::Tensor view = b.slice(0, 2);
  EXPECT_EQ(account.live(), 1008);
  a.reset();
  EXPECT_EQ(account.live(), 7);
  b.reset();
  EXPECT_EQ(account.live(), 7) << "a view keeps the memory";
  EXPECT_EQ(account.peak(), 1008);
}

TEST_F(AccountUnit, ThePeakBeginsAnewWhenReset) {
  MemoryAccount account;
  const AccountScope scope(account);
  const at::Tensor kept = tensor_of(10);
  tensor_of(5000);
  EXPECT_EQ(account.peak(), 5010);
  account.reset_peak();
  EXPECT_EQ(account.peak(), 10);
  tensor_of(100);
  EXPECT_EQ(account.peak(), 110);
}

TEST_F(AccountUnit, ScopesNest) {
  MemoryAccount outer;
  MemoryAccount inner;
  const AccountScope scope(outer);
  const at::Tensor a = tensor_of(1);
  std::optional<at::Tensor> b;
  {
    const AccountScope nested(inner);
    b = tensor_of(20);
    const AccountScope process(MemoryAccount::process());
    tensor_of(300);
  }
  const at::Tensor c = tensor_of(4000);
  EXPECT_EQ(outer.live(), 4001);
  EXPECT_EQ(inner.live(), 20);
  EXPECT_EQ(inner.peak(), 20);
  b.reset();
  EXPECT_EQ(inner.live(), 0) << "freed outside its scope";
}

TEST_F(AccountUnit, CopiesAreTheSameAccount) {
  MemoryAccount account;
  const MemoryAccount copy = account;
  const AccountScope scope(copy);
  const at::Tensor a = tensor_of(11);
  EXPECT_EQ(account.live(), 11);
  EXPECT_EQ(MemoryAccount::current().live(), 11);
}

TEST_F(AccountUnit, TensorsMayOutliveTheirAccount) {
  const std::int64_t before = MemoryAccount::process().live();
  std::optional<at::Tensor> tensor;
  {
    const AccountScope scope{MemoryAccount()};
    tensor = tensor_of(12'345);
  }
  EXPECT_EQ(MemoryAccount::process().live(), before + 12'345);
  const MemoryAccount next;
  EXPECT_EQ(next.live(), 0);
  tensor.reset();
  EXPECT_EQ(next.live(), 0);
  EXPECT_EQ(MemoryAccount::process().live(), before);
}

TEST_F(AccountUnit, TheProcessCountsAll) {
  const MemoryAccount process = MemoryAccount::process();
  const std::int64_t before = process.live();
  const at::Tensor a = tensor_of(3);
  const AccountScope scope{MemoryAccount()};
  const at::Tensor b = tensor_of(40);
  EXPECT_EQ(process.live(), before + 43);
  EXPECT_GE(process.peak(), process.live());
}

TEST_F(AccountRanks, AFreeOnAnotherThreadLowersTheRightAccount) {
  MemoryAccount mine;
  MemoryAccount others;
  at::Tensor tensor;
  {
    const AccountScope scope(mine);
    tensor = tensor_of(1 << 20);
  }
  std::thread([&] {
    const AccountScope scope(others);
    tensor.reset();
    tensor = tensor_of(99);
  }).join();
  EXPECT_EQ(mine.live(), 0);
  EXPECT_EQ(mine.peak(), 1 << 20);
  EXPECT_EQ(others.live(), 99);
}

TEST_F(AccountRanks, HelperThreadsJoinTheirRank) {
  MemoryAccount rank;
  const AccountScope scope(rank);
  at::Tensor result;
  std::thread helper([&result, account = MemoryAccount::current()] {
    const AccountScope joined(account);
    result = tensor_of(500);
  });
  helper.join();
  EXPECT_EQ(rank.live(), 500);
}

TEST_F(AccountRanks, RanksAreExactWhileTheyHandTensorsAround) {
  constexpr std::size_t kRanks = 4;
  const std::int64_t before = MemoryAccount::process().live();
  std::vector<MemoryAccount> accounts(kRanks);
  std::vector<std::vector<at::Tensor>> inboxes(kRanks);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::thread> ranks;
    std::vector<std::vector<at::Tensor>> outboxes(kRanks);
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      ranks.emplace_back([&, rank] {
        const AccountScope scope(accounts[rank]);
        inboxes[rank].clear();
        for (std::int64_t i = 0; i < 50; ++i) {
          outboxes[rank].push_back(
              tensor_of(1 + i * 997 + static_cast<std::int64_t>(rank)));
        }
      });
    }
    for (std::thread& rank : ranks) {
      rank.join();
    }
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      inboxes[(rank + 1) % kRanks] = std::move(outboxes[rank]);
      const auto offset = static_cast<std::int64_t>(rank);
      ASSERT_EQ(accounts[rank].live(), 50 * (1 + offset) + 997 * 49 * 25);
    }
  }
  inboxes.clear();
  for (const MemoryAccount& account : accounts) {
    EXPECT_EQ(account.live(), 0);
    EXPECT_GE(account.peak(), 50 + 997 * 49 * 25);
  }
  EXPECT_EQ(MemoryAccount::process().live(), before);
}

}  // namespace
}  // namespace trireme::memory
