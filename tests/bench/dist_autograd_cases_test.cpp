#include <map>
#include <set>

#include <gtest/gtest.h>

#include "trireme/bench/dist_autograd.h"
#include "trireme/testing/check.h"

namespace trireme::bench {
namespace {

std::map<std::string, double> goals_of(bool tls) {
  std::map<std::string, double> goals;
  for (const GradientCase& one : gradient_cases(tls))
    if (one.goal)
      goals[one.name] = *one.goal;
  return goals;
}

TEST(GradientCases, AskWhatTheDocumentationSays) {
  EXPECT_EQ(
      goals_of(true),
      (std::map<std::string, double>{
          {"multiply 1,024 floats, exact", 5},
          {"chain through 4 workers, exact", 3},
          {"fan-out to 8 calls, exact", 3},
          {"hybrid step, 4 trainers and a server, exact", 3}}));
}

// What is asked for is asked of what users run.
TEST(GradientCases, AskItOfTheDefaults) {
  for (const GradientCase& one : gradient_cases(true))
    EXPECT_EQ(one.goal.has_value(), one.job.mode == "exact" && one.job.wire == "host")
        << one.name;
}

TEST(GradientCases, SayInTheirNamesHowTheyGo) {
  std::set<std::string> names;
  for (const GradientCase& one : gradient_cases(true)) {
    EXPECT_TRUE(names.insert(one.name).second) << one.name;
    EXPECT_EQ(one.job.wire == "plain", testing::contains(one.name, "without TLS"))
        << one.name;
    EXPECT_TRUE(testing::contains(one.name, ", " + one.job.mode)) << one.name;
  }
}

TEST(GradientCases, HaveTheRanksThatTheirWorkTakes) {
  int ranks = 0;
  for (const GradientCase& one : gradient_cases(true)) {
    EXPECT_GE(one.ranks, ranks) << "those of one number of ranks stand together";
    ranks = one.ranks;
    if (one.job.op == "chain") {
      EXPECT_EQ(one.ranks, one.job.calls + 1);
    } else if (one.job.op == "hybrid") {
      EXPECT_EQ(one.ranks, kHybridTrainers + 1);
    }
  }
}

TEST(GradientCases, DoWithoutTls) {
  for (const GradientCase& one : gradient_cases(false))
    EXPECT_EQ(one.job.wire, "plain") << one.name;
  EXPECT_EQ(goals_of(false).size(), 4u);
}

}  // namespace
}  // namespace trireme::bench
