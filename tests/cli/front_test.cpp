#include "trireme/cli/front.h"

#include <sstream>

#include <gtest/gtest.h>

#include "trireme/testing/scratch_folder.h"
#include "trireme/version.h"

namespace trireme::cli {
namespace {

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

Outcome run(
    const std::vector<std::string>& arguments, const FrontOptions& options = {}) {
  std::ostringstream out, err;
  const int code = run_front(arguments, out, err, options);
  return {code, out.str(), err.str()};
}

bool has(const std::string& all, const std::string& part) {
  return all.find(part) != std::string::npos;
}

TEST(Front, HelpsWithAnExampleOfEachCommand) {
  for (const auto& words : {std::vector<std::string>{"--help"}, {"-h"}, {"help"}}) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, "");
    for (const char* part :
         {"Commands:",
          "  trireme train\n",
          "  trireme sample --model",
          "  trireme run -n 4 -- ./program\n",
          "  trireme keys job job.key\n",
          "  trireme bench comm",
          "  trireme doctor\n"})
      EXPECT_TRUE(has(outcome.out, part)) << part << " in\n" << outcome.out;
  }
}

TEST(Front, HelpsWithACommand) {
  const Outcome outcome = run({"doctor", "--help"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(has(outcome.out, "--flight DIR")) << outcome.out;
  EXPECT_EQ(run({"help", "doctor"}).out, outcome.out);
}

TEST(Front, TellsItsVersion) {
  const Outcome outcome = run({"--version"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, std::string(kVersion) + "\n");
}

TEST(Front, WithoutACommandIsWrongUsage) {
  const Outcome outcome = run({});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(has(outcome.err, "Usage: trireme")) << outcome.err;
}

TEST(Front, NamesTheNearestCommand) {
  const Outcome outcome = run({"doctr\n", "--json"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(outcome.err.starts_with(
      "trireme: [cli] expected a command (train, sample, run, "))
      << outcome.err;
  EXPECT_TRUE(
      outcome.err.ends_with("doctor), got \"doctr\\n\"; did you mean doctor?\n"))
      << outcome.err;
}

TEST(Front, SuggestsNothingWhereNothingIsNear) {
  const Outcome outcome = run({"bogus"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_TRUE(outcome.err.ends_with("got \"bogus\"; see trireme --help\n"))
      << outcome.err;
}

TEST(Front, RefusesUnknownOptions) {
  for (const auto& words : {std::vector<std::string>{"--bad"}, {"doctor", "--bad"}}) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(has(outcome.err, "--bad; see trireme ")) << outcome.err;
  }
  EXPECT_EQ(run({"doctor", "--flight"}).code, 2);
}

TEST(FrontProcs, PassesAllWordsOnUntouched) {
  const testing::ScratchFolder folder;
  const FrontOptions options{.torch_program = folder.path() / "trireme-torch"};
  std::filesystem::rename(
      folder.program("printf '<%s>' \"$@\" >&2; exit 3"), options.torch_program);
  const auto three = ::testing::ExitedWithCode(3);
  EXPECT_EXIT(
      run({"train", "--help", "a b", "", "--version"}, options),
      three,
      "^<train><--help><a b><><--version>$");
  EXPECT_EXIT(run({"help", "sample"}, options), three, "^<sample><--help>$");
  EXPECT_EXIT(
      run({"doctor", "--json", "--flight", "-odd"}, options),
      three,
      "^<doctor><--flight><-odd><--json>$");
}

TEST(FrontProcs, HandsBenchesToTheirOwnProgram) {
  const testing::ScratchFolder folder;
  std::filesystem::rename(
      folder.program("printf 'bench:<%s>' \"$@\" >&2; exit 4"),
      folder.path() / "trireme-bench");
  const FrontOptions options{.torch_program = folder.path() / "trireme-torch"};
  EXPECT_EXIT(
      run({"bench", "comm", "--quick"}, options),
      ::testing::ExitedWithCode(4),
      "^bench:<bench>bench:<comm>bench:<--quick>$");
}

TEST(FrontProcs, SaysThatTheOtherProgramIsMissing) {
  const testing::ScratchFolder folder;
  const FrontOptions options{.torch_program = folder.path() / "trireme-torch"};
  const Outcome outcome = run({"train"}, options);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(has(outcome.err, "trireme: [cli] expected to run ")) << outcome.err;
  EXPECT_TRUE(has(outcome.err, "No such file")) << outcome.err;
  folder.write("trireme-torch", "no program");
  EXPECT_TRUE(has(run({"train"}, options).err, "no executable file"));
}

}  // namespace
}  // namespace trireme::cli
