#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "trireme/bench/comm.h"

namespace trireme::bench {
namespace {

TEST(CommCases, AskWhatTheDocumentationSays) {
  const std::map<std::string, double> goals{
      {"all_reduce 4 B, 2 ranks", 15},
      {"all_reduce 4 KiB, 2 ranks", 50},
      {"all_reduce 64 KiB, 2 ranks", 20},
      {"all_reduce 1 MiB, 2 ranks", 8},
      {"all_reduce 64 MiB, 2 ranks", 4},
      {"all_reduce 64 MiB in the segment, 2 ranks", 8},
      {"ping_pong 4 KiB, 2 ranks", 25},
      {"ping_pong 16 MiB, 2 ranks", 3},
      {"all_reduce 4 B, 8 ranks", 10},
      {"all_reduce 1 MiB, 8 ranks", 15},
      {"all_reduce 64 MiB, 8 ranks", 3.5},
      {"all_reduce 64 MiB, bfloat16 against float32", 1 / 1.5},
      {"all_reduce 4 B, local against shm", 0.9},
      {"all_reduce 64 KiB, local against shm", 0.9},
      {"all_reduce 1 MiB, local against shm", 0.9},
      {"all_reduce 64 MiB, local against shm", 0.9},
      {"ping_pong 4 KiB, local against shm", 0.9},
      {"all_reduce 4 B, trireme run against unpinned", 1 / 1.2},
      {"all_reduce 64 KiB, trireme run against unpinned", 1 / 1.2},
      {"ping_pong 4 KiB, trireme run against unpinned", 1 / 1.2}};
  const std::map<std::string, std::pair<double, std::string>> limits{
      {"abort wakes 3 others, shm", {100e3, "us"}},
      {"abort wakes 3 others, local", {100e3, "us"}},
      {"64 ranks wait for one, share of a core", {5, "%"}}};
  std::map<std::string, double> found;
  std::map<std::string, std::pair<double, std::string>> found_limits;
  for (const CommCase& one : comm_cases()) {
    if (one.goal)
      found[one.name] = *one.goal;
    if (one.limit)
      found_limits[one.name] = {*one.limit, one.unit};
  }
  EXPECT_EQ(found, goals);
  EXPECT_EQ(found_limits, limits);
}

TEST(CommCases, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const CommCase& one : comm_cases())
    EXPECT_TRUE(names.insert(one.name).second) << one.name;
}

TEST(CommCases, CompareTheSameWork) {
  for (const CommCase& one : comm_cases()) {
    EXPECT_EQ(one.goal.has_value(), one.peer.has_value()) << one.name;
    if (!one.peer)
      continue;
    EXPECT_EQ(one.ours.job.op, one.peer->job.op) << one.name;
    EXPECT_EQ(one.ours.job.bytes, one.peer->job.bytes) << one.name;
    EXPECT_GE(one.peer->job.repetitions, 1) << one.name;
    EXPECT_GE(one.peer->job.warm_up, 1) << one.name;
  }
}

// Changing the number of ranks stops all workers, and starting them takes seconds.
TEST(CommCases, KeepThoseOfOneNumberOfRanksTogether) {
  std::vector<int> order;
  for (const CommCase& one : comm_cases())
    order.push_back(one.ranks);
  order.erase(std::unique(order.begin(), order.end()), order.end());
  EXPECT_EQ(order, (std::vector<int>{2, 4, 8, 64}));
}

TEST(CommCases, OfTcpAskWhatTheDocumentationSays) {
  const std::map<std::string, double> goals{
      {"all_reduce 4 B, tcp, 2 ranks", 3},
      {"all_reduce 4 KiB, tcp, 2 ranks", 3},
      {"all_reduce 64 KiB, tcp, 2 ranks", 3},
      {"all_reduce 1 MiB, tcp, 2 ranks", 1},
      {"all_reduce 64 MiB, tcp, 2 ranks", 1},
      {"all_reduce 1 MiB, tcp, 2 hosts of 2 ranks", 2},
      {"all_reduce 64 MiB, tcp, 2 hosts of 2 ranks", 2},
      {"all_reduce 1 MiB, tcp, 2 hosts of 2 ranks over 1 Gbit/s", 2},
      {"all_reduce 64 MiB, tcp, 2 hosts of 2 ranks over 1 Gbit/s", 2}};
  const std::map<std::string, double> limits{
      {"abort wakes 3 others, tcp", 100e3},
      {"abort wakes 3 others, tcp, in all_reduce 64 MiB", 100e3}};
  std::map<std::string, double> found, found_limits;
  std::vector<int> order;
  for (const CommCase& one : comm_tcp_cases()) {
    order.push_back(one.ranks);
    if (one.limit) {
      found_limits[one.name] = *one.limit;
      EXPECT_EQ(one.ours.team, CommTeam::Tcp) << one.name;
      continue;
    }
    found[one.name] = one.goal.value_or(0);
    ASSERT_TRUE(one.peer) << one.name;
    EXPECT_TRUE(is_gloo(one.peer->team)) << one.name;
    EXPECT_EQ(link_of(one.ours.team), link_of(one.peer->team)) << one.name;
    EXPECT_EQ(one.ours.job.bytes, one.peer->job.bytes) << one.name;
  }
  EXPECT_EQ(found, goals);
  EXPECT_EQ(found_limits, limits);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(CommCases, OfMpiAskWhatTheDocumentationSays) {
  std::map<std::string, double> found;
  for (const CommCase& one : comm_mpi_cases()) {
    EXPECT_EQ(one.ranks, 4) << one.name;
    ASSERT_TRUE(one.peer) << one.name;
    EXPECT_EQ(one.ours.team, CommTeam::Mpi) << one.name;
    EXPECT_EQ(one.peer->team, CommTeam::Mpi) << one.name;
    EXPECT_EQ(one.ours.job.op, "all_reduce_hosts") << one.name;
    EXPECT_EQ(one.ours.job.bytes, one.peer->job.bytes) << one.name;
    EXPECT_EQ(one.goal.has_value(), one.peer->job.op == "all_reduce") << one.name;
    found[one.name] = one.goal.value_or(0);
  }
  EXPECT_EQ(
      found,
      (std::map<std::string, double>{
          {"all_reduce 4 B, mpi, 2 hosts against flat", 1},
          {"all_reduce 64 KiB, mpi, 2 hosts against flat", 1},
          {"all_reduce 1 MiB, mpi, 2 hosts against flat", 1},
          {"all_reduce 64 MiB, mpi, 2 hosts against flat", 1},
          {"all_reduce 4 B, mpi, 2 hosts against MPI_Allreduce", 0},
          {"all_reduce 64 KiB, mpi, 2 hosts against MPI_Allreduce", 0},
          {"all_reduce 1 MiB, mpi, 2 hosts against MPI_Allreduce", 0},
          {"all_reduce 64 MiB, mpi, 2 hosts against MPI_Allreduce", 0}}));
}

}  // namespace
}  // namespace trireme::bench
