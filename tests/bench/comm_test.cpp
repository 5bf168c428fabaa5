#include "trireme/bench/comm.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "trireme/bench/json.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

struct CommOutcome {
  int exit_code = -1;
  std::string output;
};

// Runs the program as a user would, with stderr in the output.
CommOutcome run_program(const std::string& variables, const std::string& arguments) {
  const std::string line = text(
      "env ", variables, " '", TRIREME_BENCH_PROGRAM, "' bench ", arguments, " 2>&1");
  FILE* pipe = popen(line.c_str(), "r");
  CommOutcome outcome;
  char bytes[4096];
  for (size_t got = 0; (got = fread(bytes, 1, sizeof(bytes), pipe)) > 0;)
    outcome.output.append(bytes, got);
  const int status = pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

void expect_within(const CommOutcome& outcome, const std::string& part) {
  EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
}

class TemporaryFile {
 public:
  TemporaryFile()
      : path_(
            std::filesystem::temp_directory_path() /
            text("bench-", getpid(), ".json")) {}
  ~TemporaryFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

constexpr const char* kOneCase = "comm --case 'all_reduce 4 B, 2 ranks' --rounds 1";

TEST(BenchComm, NamesItsCasesWhenNoneFits) {
  try {
    bench_comm({.only = "no such case"});
    FAIL() << "expected an error";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("all_reduce 4 KiB"), std::string::npos);
  }
}

TEST(BenchCommProcs, GoesWithoutThePeerAndSaysHowToGetIt) {
  const CommOutcome outcome = run_program("TRIREME_PYTHON=", kOneCase);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  expect_within(outcome, "No peer: TRIREME_PYTHON is not set");
  expect_within(outcome, "no peer");
}

TEST(BenchCommProcs, CheckFailsWithoutThePeer) {
  const CommOutcome outcome =
      run_program("TRIREME_PYTHON=", text(kOneCase, " --check"));
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  expect_within(outcome, "all_reduce 4 B, 2 ranks: expected a peer");
}

TEST(BenchCommProcs, SaysWhyAPeerDoesNotStart) {
  const CommOutcome outcome = run_program("TRIREME_PYTHON=/bin/false", kOneCase);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  expect_within(outcome, "No peer: [bench] expected an answer from gloo worker");
  expect_within(outcome, "exit code 1");
  expect_within(outcome, "To get the peer, start the program through ./trireme");
}

TEST(BenchCommProcs, MeasuresAbortsWithinProcessesAndThreads) {
  const CommOutcome outcome =
      run_program("TRIREME_PYTHON=", "comm --case abort --rounds 3 --check");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  expect_within(outcome, "abort wakes 3 others, shm");
  expect_within(outcome, "abort wakes 3 others, local");
}

TEST(BenchCommPeer, MeasuresEveryCaseWithItsPeer) {
  const char* python = std::getenv("TRIREME_PYTHON");
  // Whoever builds for others must not leave it out unseen.
  const bool required = std::getenv("CI") != nullptr;
  if (!required && (python == nullptr || *python == '\0'))
    GTEST_SKIP() << "TRIREME_PYTHON is not set: no PyTorch to compare with";
  const TemporaryFile file;
  const CommOutcome outcome =
      run_program("", text("comm --quick --json '", file.path(), "'"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  const auto records = read_records(file.path());
  const auto cases = comm_cases();
  ASSERT_EQ(records.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(records[i].name, cases[i].name);
    expect_within(outcome, cases[i].name);
    EXPECT_GE(records[i].ours.rounds.size(), 3u) << records[i].name;
    EXPECT_GT(records[i].our_value(), 0) << records[i].name;
    EXPECT_FALSE(records[i].machine.empty());
    if (cases[i].peer) {
      EXPECT_GT(records[i].peer_value().value_or(0), 0) << records[i].name << "\n"
                                                        << outcome.output;
    }
  }
}

}  // namespace
}  // namespace trireme::bench
