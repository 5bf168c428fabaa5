#include <map>
#include <set>

#include <gtest/gtest.h>

#include "trireme/bench/net.h"

namespace trireme::bench {
namespace {

TEST(NetCases, AskWhatTheDocumentationSays) {
  const std::map<std::string, double> goals{
      {"64 B there and back, plain", 1 / 2.0},
      {"64 B there and back, key", 1 / 2.5},
      {"64 MiB one way, plain", 0.8},
      {"64 MiB one way, key", 0.9}};
  const std::map<std::string, std::pair<double, std::string>> limits{
      {"4 B behind 256 MiB, plain", {5e3, "us"}},
      {"4 B behind 256 MiB, key", {5e3, "us"}},
      {"memory of 1000 idle connections, plain", {65536, "KiB"}},
      {"memory of 1000 idle connections, key", {65536, "KiB"}}};
  std::map<std::string, double> found;
  std::map<std::string, std::pair<double, std::string>> found_limits;
  for (const NetCase& one : net_cases()) {
    if (one.goal)
      found[one.name] = *one.goal;
    if (one.limit)
      found_limits[one.name] = {*one.limit, one.unit};
  }
  EXPECT_EQ(found, goals);
  EXPECT_EQ(found_limits, limits);
}

TEST(NetCases, CompareTheSameWork) {
  std::set<std::string> names;
  for (const NetCase& one : net_cases()) {
    EXPECT_TRUE(names.insert(one.name).second) << one.name;
    EXPECT_TRUE(one.peer || !one.goal) << one.name;
    if (!one.peer)
      continue;
    EXPECT_EQ(one.ours.bytes, one.peer->bytes) << one.name;
    EXPECT_EQ(one.ours.reply, one.peer->reply) << one.name;
  }
}

}  // namespace
}  // namespace trireme::bench
