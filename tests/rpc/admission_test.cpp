#include "trireme/rpc/admission.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::rpc {
namespace {

using Ints = Admission<int>;

std::shared_ptr<int> numbered(int number) {
  return std::make_shared<int>(number);
}

TEST(Admission, KeepsHalfOfTheRestForTheNextDepth) {
  Ints admission(8, 100);
  for (const auto& [depth, places] :
       {std::pair(0, 4), std::pair(1, 2), std::pair(2, 1), std::pair(3, 1)}) {
    for (int i = 0; i < places; ++i)
      EXPECT_TRUE(admission.enter(numbered(depth), depth).start) << depth;
    if (depth < 3) {
      EXPECT_FALSE(admission.enter(numbered(depth), depth).start) << depth;
      // It goes on waiting while deeper ones come.
    }
  }
}

TEST(Admission, TheDeepestGoFirstAndThenTheOldest) {
  Ints admission(2, 100);
  EXPECT_TRUE(admission.enter(numbered(0), 0).start);
  EXPECT_FALSE(admission.enter(numbered(1), 0).start);
  EXPECT_FALSE(admission.enter(numbered(2), 0).start);
  const auto deep = admission.enter(numbered(3), 1).start;
  ASSERT_TRUE(deep);
  EXPECT_EQ(*deep, 3);
  EXPECT_FALSE(admission.leave()) << "one of the two may not be a user's";
  EXPECT_EQ(*admission.leave(), 1);
  EXPECT_EQ(*admission.leave(), 2);
  EXPECT_FALSE(admission.leave());
}

TEST(Admission, ItsQueueHasAnEnd) {
  Ints admission(1, 2);
  EXPECT_TRUE(admission.enter(numbered(0), 0).start);
  EXPECT_FALSE(admission.enter(numbered(1), 0).full);
  EXPECT_FALSE(admission.enter(numbered(2), 0).full);
  EXPECT_TRUE(admission.enter(numbered(3), 0).full);
  EXPECT_EQ(*admission.leave(), 1);
  EXPECT_FALSE(admission.enter(numbered(4), 0).full);
}

TEST(Admission, WhoComesBackTakesAPlaceAndIsNeverTurnedAway) {
  Ints admission(2, 1);
  EXPECT_EQ(*admission.enter_again(numbered(0), 0), 0);
  EXPECT_FALSE(admission.enter_again(numbered(1), 0)) << "a user's may have one place";
  EXPECT_TRUE(admission.enter(numbered(2), 0).full);
  EXPECT_FALSE(admission.enter_again(numbered(3), 0));
  EXPECT_EQ(*admission.enter_again(numbered(4), 1), 4);
  EXPECT_FALSE(admission.leave());
  EXPECT_EQ(*admission.leave(), 1);
  EXPECT_EQ(*admission.leave(), 3);
  EXPECT_FALSE(admission.leave());
}

TEST(Admission, NobodyIsForgottenInARush) {
  Ints admission(4, 1 << 20);
  std::atomic<int> run{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 20'000; ++i)
        for (auto next = admission.enter(numbered(i), (i + thread) % 5).start; next;
             next = admission.leave())
          ++run;
    });
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(run.load(), 80'000);
}

}  // namespace
}  // namespace trireme::rpc
