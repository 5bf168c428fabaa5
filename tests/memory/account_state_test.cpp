// The counters: exact sums, peaks, lifetimes, and what the process hears of accounts.
#include "trireme/memory/account_state.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::memory {
namespace {

constexpr std::int64_t kStep = AccountState::kReportStep;

TEST(AccountState, CountsLiveAndPeak) {
  AccountState& account = AccountState::open();
  account.charge(100);
  account.charge(50);
  account.discharge(100);
  account.charge(20);
  EXPECT_EQ(account.live(), 70);
  EXPECT_EQ(account.peak(), 150);
  account.reset_peak();
  EXPECT_EQ(account.peak(), 70);
  account.charge(1);
  EXPECT_EQ(account.peak(), 71);
  account.discharge(71);
  account.close();
}

TEST(AccountState, TheProcessCountsAllAccountsExactly) {
  AccountState& process = AccountState::process();
  const std::int64_t before = process.live();
  AccountState& a = AccountState::open();
  AccountState& b = AccountState::open();
  a.charge(10);
  b.charge(kStep * 3 + 5);
  process.charge(7);
  EXPECT_EQ(process.live(), before + kStep * 3 + 22);
  b.discharge(kStep * 3 + 5);
  EXPECT_EQ(process.live(), before + 17);
  a.discharge(10);
  process.discharge(7);
  a.close();
  b.close();
  EXPECT_EQ(process.live(), before);
}

TEST(AccountState, ThePeakOfTheProcessIsExactWithoutAccounts) {
  AccountState& process = AccountState::process();
  process.reset_peak();
  const std::int64_t before = process.live();
  process.charge(3);
  process.discharge(3);
  EXPECT_EQ(process.peak(), before + 3);
  process.reset_peak();
  EXPECT_EQ(process.peak(), before);
}

TEST(AccountState, ThePeakOfTheProcessIsNearlyExactWithAccounts) {
  AccountState& process = AccountState::process();
  process.reset_peak();
  const std::int64_t before = process.live();
  AccountState& account = AccountState::open();
  std::int64_t live = 0;
  for (std::int64_t bytes = 1; live < 10 * kStep; bytes += 999) {
    account.charge(bytes);
    live += bytes;
  }
  account.discharge(live);
  account.close();
  EXPECT_LE(process.peak(), before + live);
  EXPECT_GT(process.peak(), before + live - kStep);
  EXPECT_EQ(process.live(), before);
}

TEST(AccountState, IsUsedAgainOnlyAfterItsLastBlock) {
  AccountState& first = AccountState::open();
  first.charge(5);
  first.close();
  AccountState& second = AccountState::open();
  EXPECT_NE(&second, &first) << "a block still names it";
  first.discharge(5);
  AccountState& third = AccountState::open();
  EXPECT_EQ(&third, &first);
  EXPECT_EQ(third.live(), 0);
  EXPECT_EQ(third.peak(), 0);
  second.close();
  third.close();
}

TEST(AccountState, EachThreadHasACurrentOne) {
  AccountState& account = AccountState::open();
  EXPECT_EQ(&AccountState::current(), &AccountState::process());
  AccountState::set_current(&account);
  EXPECT_EQ(&AccountState::current(), &account);
  std::thread([] {
    EXPECT_EQ(&AccountState::current(), &AccountState::process());
  }).join();
  AccountState::set_current(nullptr);
  EXPECT_EQ(&AccountState::current(), &AccountState::process());
  account.close();
}

TEST(AccountStateRanks, ThreadsLoseNothing) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 20'000;
  const std::int64_t before = AccountState::process().live();
  AccountState& shared = AccountState::open();
  std::vector<std::thread> threads;
  for (int id = 0; id < kThreads; ++id) {
    threads.emplace_back([&shared, id] {
      for (int i = 0; i < kRounds; ++i) {
        const std::int64_t bytes = 1 + (i * 7919 + id) % (kStep / 2);
        shared.charge(bytes);
        if (i % 1000 == 0) {
          shared.reset_peak();
        }
        ASSERT_GE(shared.peak(), bytes);
        shared.discharge(bytes);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(shared.live(), 0);
  shared.reset_peak();
  EXPECT_EQ(shared.peak(), 0);
  shared.close();
  EXPECT_EQ(AccountState::process().live(), before);
}

TEST(AccountStateRanks, ThreadsOpenAndCloseTheirOwn) {
  const std::int64_t before = AccountState::process().live();
  std::vector<std::thread> threads;
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([] {
      for (int i = 0; i < 500; ++i) {
        AccountState& mine = AccountState::open();
        ASSERT_EQ(mine.live(), 0);
        mine.charge(kStep + i);
        ASSERT_EQ(mine.live(), kStep + i) << "somebody else has it too";
        mine.close();
        mine.discharge(kStep + i);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(AccountState::process().live(), before);
}

}  // namespace
}  // namespace trireme::memory
