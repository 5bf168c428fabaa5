#include <map>
#include <set>

#include <gtest/gtest.h>

#include "trireme/bench/rpc.h"
#include "trireme/testing/check.h"

namespace trireme::bench {
namespace {

TEST(RpcCases, AskWhatTheDocumentationSays) {
  const std::map<std::string, double> goals{
      {"echo 4 B", 6},
      {"echo 4 B, TCP with TLS", 4},
      {"echo 1 MiB", 4},
      {"echo 16 MiB", 3},
      {"500 async calls of 4 B", 100}};
  const std::map<std::string, std::pair<double, std::string>> limits{
      {"64 clients at once: calls lost", {0, "calls"}},
      {"64 clients at once: slowest of 100 over the median", {20, "x"}},
      {"64 clients at once: growth of the server", {1024, "KiB"}}};
  std::map<std::string, double> found;
  std::map<std::string, std::pair<double, std::string>> found_limits;
  for (const RpcCase& one : rpc_cases(true, 30)) {
    if (one.goal)
      found[one.name] = *one.goal;
    if (one.limit)
      found_limits[one.name] = {*one.limit, one.unit};
  }
  EXPECT_EQ(found, goals);
  EXPECT_EQ(found_limits, limits);
}

TEST(RpcCases, CompareTheSameWork) {
  std::set<std::string> names;
  for (const RpcCase& one : rpc_cases(true, 30)) {
    EXPECT_TRUE(names.insert(one.name).second) << one.name;
    EXPECT_TRUE(one.peer || !one.goal) << one.name;
    EXPECT_EQ(one.figure.has_value(), one.ours.op == "crowd") << one.name;
    if (!one.peer)
      continue;
    EXPECT_EQ(one.ours.op, one.peer->op) << one.name;
    EXPECT_EQ(one.ours.bytes, one.peer->bytes) << one.name;
    EXPECT_EQ(one.ours.calls, one.peer->calls) << one.name;
    // What is asked for is asked of what users run.
    EXPECT_FALSE(one.goal && one.ours.quick) << one.name;
  }
}

TEST(RpcCases, ACrowdIsOneForAllItsFigures) {
  std::set<std::string> jobs;
  for (const RpcCase& one : rpc_cases(true, 7))
    if (one.figure) {
      jobs.insert(to_line(one.ours));
      EXPECT_EQ(one.ours.clients, 64);
      EXPECT_EQ(one.ours.seconds, 7);
    }
  EXPECT_EQ(jobs.size(), 1u);
}

// What is asked for is asked of what `trireme run` gives: a job key.
TEST(RpcCases, GoalsAreForTheDefault) {
  for (const RpcCase& one : rpc_cases(true, 30)) {
    const bool plain = testing::contains(one.name, ", plain");
    EXPECT_EQ(one.ours.wire == "plain", plain) << one.name;
    EXPECT_FALSE(plain && one.goal) << one.name;
    if (one.limit) {
      EXPECT_EQ(one.ours.wire, "host") << one.name;
    }
  }
}

TEST(RpcCases, DoWithoutTls) {
  for (const RpcCase& one : rpc_cases(false, 30))
    EXPECT_EQ(one.ours.wire, "plain") << one.name;
}

}  // namespace
}  // namespace trireme::bench
