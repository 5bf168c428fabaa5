// What ranks print, read and find around them.
#include <map>
#include <set>
#include <sstream>

#include "run_case.h"
#include "trireme/core/machine.h"

namespace trireme::launch {
namespace {

class RunOutputProcs : public RunCase {
 protected:
  // The one folder of a run in folder_.
  std::filesystem::path run_folder() const {
    std::vector<std::filesystem::path> runs(
        std::filesystem::directory_iterator(folder_.path()), {});
    EXPECT_EQ(runs.size(), 1u);
    return runs.empty() ? std::filesystem::path() : runs[0];
  }
  // Paths of files below the run's folder, with what they hold.
  std::map<std::string, std::string> log_files() const {
    std::map<std::string, std::string> files;
    const auto run = run_folder();
    for (const auto& entry : std::filesystem::recursive_directory_iterator(run))
      if (entry.is_regular_file())
        files[entry.path().lexically_relative(run)] =
            read_text_file(entry.path()).value_or("");
    return files;
  }
};

using Files = std::map<std::string, std::string>;

TEST_F(RunOutputProcs, TenMegabytesWithoutANewlineComeThrough) {
  EXPECT_EQ(run({"-n", "2"}, {"flood=10000000"}), 0);
  EXPECT_EQ(out_.size(), 20'000'000u);
  EXPECT_EQ(run({"-n", "1"}, {"flood_err=10000000"}), 0);
  EXPECT_EQ(err_, std::string(10'000'000, 'x'));
}

TEST_F(RunOutputProcs, TenMegabytesWithoutANewlineComeThroughWithAPrefix) {
  EXPECT_EQ(run({"-n", "2", "--prefix"}, {"flood=10000000"}), 0);
  EXPECT_EQ(Launched::count(out_, "x"), 20'000'000);
  std::istringstream lines(out_);
  for (std::string line; std::getline(lines, line);)
    ASSERT_TRUE(line.starts_with("[rank 0] ") || line.starts_with("[rank 1] "));
}

TEST_F(RunOutputProcs, LinesHaveTheirRankInFront) {
  EXPECT_EQ(
      run({"-n", "2", "--prefix"}, {"0:say=zero", "1:say=one", "1:error=bad"}), 0);
  EXPECT_TRUE(
      out_ == "[rank 0] zero\n[rank 1] one\n" ||
      out_ == "[rank 1] one\n[rank 0] zero\n")
      << out_;
  EXPECT_EQ(err_, "[rank 1] bad\n");
}

TEST_F(RunOutputProcs, TeeGoesToFilesAndHere) {
  EXPECT_EQ(
      run({"-n", "2", "--tee", "3", "--log-dir", folder_.path(), "--rdzv-id", "job7"},
          {"variable=RANK", "1:error=bad"}),
      0);
  EXPECT_TRUE(run_folder().filename().string().starts_with("job7_")) << run_folder();
  EXPECT_EQ(
      log_files(),
      (Files{
          {"attempt_0/0/stdout.log", "RANK=0\n"},
          {"attempt_0/0/stderr.log", ""},
          {"attempt_0/1/stdout.log", "RANK=1\n"},
          {"attempt_0/1/stderr.log", "bad\n"}}));
  EXPECT_EQ(Launched::count(out_, "[rank 0] RANK=0\n"), 1) << out_;
  EXPECT_EQ(Launched::count(out_, "[rank 1] RANK=1\n"), 1) << out_;
  EXPECT_EQ(err_, "[rank 1] bad\n");
}

TEST_F(RunOutputProcs, RedirectsGoToFilesOnly) {
  EXPECT_EQ(
      run({"-n", "2", "--redirects", "0:1,1:3", "--log-dir", folder_.path()},
          {"variable=RANK", "error=bad"}),
      0);
  EXPECT_EQ(
      log_files(),
      (Files{
          {"attempt_0/0/stdout.log", "RANK=0\n"},
          {"attempt_0/1/stdout.log", "RANK=1\n"},
          {"attempt_0/1/stderr.log", "bad\n"}}));
  EXPECT_EQ(out_, "");
  EXPECT_EQ(err_, "bad\n");
}

TEST_F(RunOutputProcs, WithoutAFolderLogsGoToATemporaryOneThatIsNamed) {
  const std::string temporary = folder_.path();
  EXPECT_EQ(
      run({"-r", "3"},
          {"say=hello"},
          [&] { ::setenv("TMPDIR", temporary.c_str(), 1); }),
      0);
  expect_err(text("[launch] the ranks' output goes to ", run_folder().string(), "\n"));
  EXPECT_EQ(log_files().at("attempt_0/0/stdout.log"), "hello\n");
}

TEST_F(RunOutputProcs, AnEarlyEndOfTheReaderEndsTheRanks) {
  for (const Words& options : {Words{"-n", "2"}, Words{"-n", "2", "--prefix"}}) {
    const auto launched = launch(options, {"say=first", "flood=100000000", "hang"});
    ASSERT_TRUE(launched->says("first\n"));
    launched->stop_reading_out();
    EXPECT_EQ(launched->finish(), Ending{.exit_code = 128 + SIGPIPE});
  }
}

TEST_F(RunOutputProcs, AnEarlyEndOfTheReaderLeavesTheFiles) {
  const auto launched = launch(
      {"--tee", "1", "--log-dir", folder_.path()},
      {"say=first", "flood=1000000", "say=last"});
  ASSERT_TRUE(launched->says("first\n"));
  launched->stop_reading_out();
  EXPECT_EQ(launched->finish(), Ending{});
  EXPECT_EQ(log_files().at("attempt_0/0/stdout.log").size(), 1'000'011u);
}

TEST_F(RunOutputProcs, AFullDiskDoesNotEndTheRanks) {
  if (!std::filesystem::exists("/dev/full"))
    GTEST_SKIP() << "there is no /dev/full";
  EXPECT_EQ(
      run({"-n", "2"},
          {"error=one", "sleep=100", "error=two", "sleep=100", "error=three"},
          [] { ::dup2(::open("/dev/full", O_WRONLY), STDERR_FILENO); }),
      0);
}

TEST_F(RunOutputProcs, OnlyRankZeroReadsTheInput) {
  const auto launched =
      launch({"-n", "3", "--prefix"}, {"say=begun", "input", "say=read"});
  ASSERT_TRUE(launched->says("read\n", 2)) << "those that have nothing to read";
  launched->write("one\ntwo\n");
  ASSERT_TRUE(launched->says("[rank 0] two\n"));
  EXPECT_EQ(Launched::count(launched->out(), "read\n"), 2);
  launched->end_input();
  EXPECT_EQ(launched->finish(), Ending{});
  EXPECT_NE(
      launched->out().find("[rank 0] one\n[rank 0] two\n[rank 0] read\n"),
      std::string::npos)
      << launched->out();
}

TEST_F(RunOutputProcs, RankVariablesWinOverThoseOfTheLauncher) {
  EXPECT_EQ(
      run({"-n", "2", "--prefix", "--master-port", "4711", "--rdzv-id", "job7"},
          {"variable=RANK",
           "variable=WORLD_SIZE",
           "variable=LOCAL_RANK",
           "variable=OMP_NUM_THREADS",
           "variable=MASTER_ADDR",
           "variable=MASTER_PORT",
           "variable=TORCHELASTIC_RUN_ID",
           "variable=SLURM_PROCID",
           "variable=MINE"},
          [] {
            const std::pair<const char*, const char*> set[] = {
                {"RANK", "7"},
                {"WORLD_SIZE", "9"},
                {"OMP_NUM_THREADS", "5"},
                {"MASTER_ADDR", "elsewhere"},
                {"SLURM_PROCID", "3"},
                {"MINE", "yes"}};
            for (const auto& [name, value] : set)
              ::setenv(name, value, 1);
          }),
      0);
  for (const char* line :
       {"RANK=1",
        "WORLD_SIZE=2",
        "LOCAL_RANK=1",
        "OMP_NUM_THREADS=5",
        "MASTER_ADDR=127.0.0.1",
        "MASTER_PORT=4711",
        "TORCHELASTIC_RUN_ID=job7",
        "SLURM_PROCID=3",
        "MINE=yes"})
    EXPECT_NE(out_.find(text("[rank 1] ", line, "\n")), std::string::npos)
        << line << " in\n"
        << out_;
}

// The CPUs of each rank, as it has printed them.
std::map<int, std::set<int>> cpus_of(const std::string& out) {
  std::map<int, std::set<int>> all;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string skip;
    int rank = -1;
    words >> skip >> rank >> skip >> skip;  // [rank 0] cpus …
    for (int cpu = 0; words >> cpu;)
      all[rank].insert(cpu);
  }
  return all;
}

TEST_F(RunOutputProcs, PinnedRanksShareNoCpu) {
  const auto allowed = allowed_cpus();
  const size_t ranks = std::min<size_t>(allowed.size(), 4);
  EXPECT_EQ(run({"-n", text(ranks), "--prefix"}, {"cpus"}), 0);
  const auto cpus = cpus_of(out_);
  EXPECT_EQ(cpus.size(), ranks) << out_;
  std::set<int> used;
  for (const auto& [rank, own] : cpus)
    for (const int cpu : own)
      EXPECT_TRUE(used.insert(cpu).second) << cpu << " is of two ranks";
}

TEST_F(RunOutputProcs, RanksThatAreNotPinnedHaveAllCpus) {
  const auto allowed = allowed_cpus();
  const std::set<int> all(allowed.begin(), allowed.end());
  // Either by wish, or because there are too few.
  for (const Words& options :
       {Words{"-n", "2", "--prefix", "--no-pin"},
        Words{"-n", text(allowed.size() + 1), "--prefix"}}) {
    EXPECT_EQ(run(options, {"cpus"}), 0);
    EXPECT_GE(cpus_of(out_).size(), 2u) << out_;
    for (const auto& [rank, own] : cpus_of(out_))
      EXPECT_EQ(own, all) << "rank " << rank;
  }
}

TEST_F(RunOutputProcs, RanksFindSignalsAndLimitsAsTheyWere) {
  const auto prepare = [] {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGWINCH);
    ::sigprocmask(SIG_BLOCK, &set, nullptr);
  };
  Launched alone({RANK_PROGRAM, mark_.word(), "state"}, prepare);
  ASSERT_EQ(alone.finish(), Ending{});
  EXPECT_EQ(run({"-n", "1"}, {"state"}, prepare), 0);
  EXPECT_EQ(out_, alone.out());
}

}  // namespace
}  // namespace trireme::launch
