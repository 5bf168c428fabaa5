// Who has ended, as a launcher tells it to the ranks.
#include "trireme/core/rank_roll.h"

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace trireme {
namespace {

Environment naming(const std::string& path) {
  return Environment{{RankRoll::kVariable, path}};
}

TEST(RankRoll, KnowsOfNobodyWhereThereIsNone) {
  RankRoll none;
  EXPECT_EQ(none.path(), "");
  none.set_ended(0);
  EXPECT_FALSE(none.has_ended(0));
  EXPECT_FALSE(RankRoll::find(Environment(), "job").has_ended(0));
  for (const char* path : {"", "/no/such/file", "/proc/self/cmdline", "/dev/zero", "/"})
    EXPECT_FALSE(RankRoll::find(naming(path), "job").has_ended(0)) << path;
}

TEST(RankRoll, TellsWhoHasEnded) {
  RankRoll roll = RankRoll::create("job", 3);
  const RankRoll read = RankRoll::find(naming(roll.path()), "job");
  EXPECT_FALSE(read.has_ended(1));
  roll.set_ended(1);
  for (const RankRoll* each : {static_cast<const RankRoll*>(&roll), &read}) {
    EXPECT_FALSE(each->has_ended(0));
    EXPECT_TRUE(each->has_ended(1));
    EXPECT_FALSE(each->has_ended(2));
    EXPECT_FALSE(each->has_ended(3)) << "there is no such rank";
    EXPECT_FALSE(each->has_ended(-1));
  }
}

TEST(RankRoll, TellsWhoWasTheFirst) {
  RankRoll roll = RankRoll::create("job", 3);
  const RankRoll read = RankRoll::find(naming(roll.path()), "job");
  EXPECT_EQ(read.first_ended(), RankRoll::kNobody);
  roll.set_ended(7);
  EXPECT_EQ(read.first_ended(), RankRoll::kNobody) << "there is no such rank";
  for (const int rank : {1, 0, 2, 1}) {
    roll.set_ended(rank);
    EXPECT_EQ(read.first_ended(), 1);
  }
  EXPECT_TRUE(read.has_ended(0));
  EXPECT_EQ(RankRoll().first_ended(), RankRoll::kNobody);
}

TEST(RankRoll, IsOnlyWrittenByWhoeverMadeIt) {
  RankRoll roll = RankRoll::create("job", 2);
  RankRoll read = RankRoll::find(naming(roll.path()), "job");
  read.set_ended(0);
  EXPECT_FALSE(roll.has_ended(0));
  roll.set_ended(2);
  roll.set_ended(-1);
  EXPECT_FALSE(read.has_ended(0) || read.has_ended(1));
}

TEST(RankRoll, OfAnotherJobSaysNothing) {
  RankRoll roll = RankRoll::create("job", 2);
  roll.set_ended(1);
  EXPECT_FALSE(RankRoll::find(naming(roll.path()), "other").has_ended(1));
  EXPECT_FALSE(RankRoll::find(naming(roll.path()), "jo").has_ended(1));
}

TEST(RankRoll, IsReadInAnotherProcess) {
  RankRoll roll = RankRoll::create("job", 2);
  const std::string path = roll.path();
  roll.set_ended(1);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const RankRoll read = RankRoll::find(naming(path), "job");
    ::_exit(read.has_ended(1) && !read.has_ended(0) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(RankRoll, OutlivesItsMakerForThoseWhoReadIt) {
  RankRoll read;
  std::string path;
  {
    RankRoll roll = RankRoll::create("job", 2);
    roll.set_ended(0);
    path = roll.path();
    read = RankRoll::find(naming(path), "job");
  }
  EXPECT_TRUE(read.has_ended(0));
  EXPECT_FALSE(RankRoll::find(naming(path), "job").has_ended(0));
}

}  // namespace
}  // namespace trireme
