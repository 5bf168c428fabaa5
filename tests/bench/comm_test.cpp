#include "trireme/bench/comm.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "bench_run.h"
#include "trireme/bench/json.h"
#include "trireme/core/error.h"
#include "trireme/core/scratch_folder.h"
#include "trireme/testing/check.h"

namespace trireme::bench {
namespace {

using testing::contains;

const BenchWords kOneCase{"comm", "--case", "all_reduce 4 B, 2 ranks", "--rounds", "1"};

/// What it said in all; expects it to exit with `code`.
std::string said(const launch::ChildResult& result, int code = 0) {
  const std::string all = result.out + result.err;
  EXPECT_EQ(result.exit_code, code) << all;
  return all;
}

TEST(BenchComm, NamesItsCasesWhenNoneFits) {
  try {
    bench_comm({.only = "no such case"});
    FAIL() << "expected an error";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("all_reduce 4 KiB"), std::string::npos);
  }
}

TEST(BenchCommProcs, GoesWithoutThePeerAndSaysHowToGetIt) {
  const std::string all = said(run_bench(kOneCase, {{"TRIREME_PYTHON", ""}}));
  EXPECT_TRUE(contains(all, "No peer: TRIREME_PYTHON is not set"));
  EXPECT_TRUE(contains(all, "no peer"));
}

TEST(BenchCommProcs, CheckFailsWithoutThePeer) {
  BenchWords words = kOneCase;
  words.push_back("--check");
  EXPECT_TRUE(contains(
      said(run_bench(words, {{"TRIREME_PYTHON", ""}}), 1),
      "all_reduce 4 B, 2 ranks: expected a peer"));
}

TEST(BenchCommProcs, SaysWhyAPeerDoesNotStart) {
  const std::string all = said(run_bench(kOneCase, {{"TRIREME_PYTHON", "/bin/false"}}));
  EXPECT_TRUE(contains(all, "No peer: [bench] expected an answer from gloo worker"));
  EXPECT_TRUE(contains(all, "exit code 1"));
  EXPECT_TRUE(contains(all, "To get the peer, start the program through ./trireme"));
}

// Neither hosts nor mpirun are where there is no program at all.
TEST(BenchCommProcs, WhatCannotBeMeasuredIsNotLeftOutOfSight) {
  for (const auto& [backend, name] :
       {std::pair("tcp", "all_reduce 1 MiB, tcp, 2 hosts of 2 ranks over 1 Gbit/s"),
        std::pair("mpi", "all_reduce 4 B, mpi, 2 hosts against flat")}) {
    const std::string all = said(
        run_bench(
            {"comm", "--backend", backend, "--case", name, "--check"},
            {{"PATH", "/no/programs"}}),
        1);
    EXPECT_TRUE(contains(all, "SHORT (left out)")) << all;
    EXPECT_TRUE(
        contains(all, text(name, ": expected it to be measured, got nothing: ")));
  }
}

TEST(BenchCommProcs, MeasuresAbortsOverTcp) {
  const std::string all = said(run_bench(
      {"comm", "--backend", "tcp", "--case", "abort", "--rounds", "3", "--check"}));
  EXPECT_TRUE(contains(all, "abort wakes 3 others, tcp"));
  EXPECT_TRUE(contains(all, "abort wakes 3 others, tcp, in all_reduce 64 MiB"));
}

TEST(BenchCommProcs, MeasuresAbortsWithinProcessesAndThreads) {
  const std::string all = said(run_bench(
      {"comm", "--case", "abort", "--rounds", "3", "--check"},
      {{"TRIREME_PYTHON", ""}}));
  EXPECT_TRUE(contains(all, "abort wakes 3 others, shm"));
  EXPECT_TRUE(contains(all, "abort wakes 3 others, local"));
}

TEST(BenchCommPeer, MeasuresEveryCaseWithItsPeer) {
  const char* python = std::getenv("TRIREME_PYTHON");
  // Whoever builds for others must not leave it out unseen.
  const bool required = std::getenv("CI") != nullptr;
  if (!required && (python == nullptr || *python == '\0'))
    GTEST_SKIP() << "TRIREME_PYTHON is not set: no PyTorch to compare with";
  const ScratchFolder folder;
  const std::string file = (folder.path() / "records.json").string();
  const std::string all = said(run_bench({"comm", "--quick", "--json", file}));
  const auto records = read_records(file);
  const auto cases = comm_cases();
  ASSERT_EQ(records.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(records[i].name, cases[i].name);
    EXPECT_TRUE(contains(all, cases[i].name));
    EXPECT_GE(records[i].ours.rounds.size(), 3u) << records[i].name;
    EXPECT_GT(records[i].our_value(), 0) << records[i].name;
    EXPECT_FALSE(records[i].machine.empty());
    if (cases[i].peer) {
      EXPECT_GT(records[i].peer_value().value_or(0), 0) << records[i].name << "\n"
                                                        << all;
    }
  }
}

}  // namespace
}  // namespace trireme::bench
