#include "trireme/core/shared_value.h"

#include <atomic>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"

namespace trireme {
namespace {

TEST(SharedValueProcs, IsTheSameForAFork) {
  const SharedValue<std::atomic<int>> number;
  const SharedValue<double> other;
  EXPECT_EQ(*number, 0);
  const pid_t child = ::fork();
  if (child == 0) {
    *other = 2.5;
    number->store(7);
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(*number, 7);
  EXPECT_EQ(*other, 2.5);
}

TEST(SharedValue, SaysThatThereIsNoMemory) {
  EXPECT_TRUE(testing::contains(
      testing::message_of<Error>([] { detail::map_shared(~std::size_t{0} / 2); }),
      "bytes of shared memory, got "));
}

}  // namespace
}  // namespace trireme
