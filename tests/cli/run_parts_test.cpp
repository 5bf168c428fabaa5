// Several programs on one command line. What becomes of them is in tests/integration.
#include "trireme/cli/run_parts.h"

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

#include "trireme/cli/run.h"
#include "trireme/core/error.h"
#include "trireme/core/machine.h"

namespace trireme::cli {
namespace {

using Words = std::vector<std::string>;
using Parts = std::vector<Words>;

PartArguments read_one(const Words& words) {
  CLI::App run;
  RunArguments arguments;
  add_run_options(run, arguments);
  return read_part(words, run);
}

std::string part_refusal(const Words& words) {
  try {
    read_one(words);
    return "took it";
  } catch (const InvalidArgument& error) {
    return error.what();
  } catch (const CLI::ParseError& error) {
    return text("parser: ", error.what());
  }
}

TEST(SplitParts, DividesAtEachColonThatStandsAlone) {
  EXPECT_EQ(split_parts({}), Parts{{}});
  EXPECT_EQ(split_parts({"./a", "b"}), (Parts{{"./a", "b"}}));
  EXPECT_EQ(
      split_parts({"./a", ":", "-n", "2", "--", "./b", ":", "./c"}),
      (Parts{{"./a"}, {"-n", "2", "--", "./b"}, {"./c"}}));
  EXPECT_EQ(split_parts({":"}), (Parts{{}, {}}));
  EXPECT_EQ(split_parts({"./a", ":", ":", "./b"}), (Parts{{"./a"}, {}, {"./b"}}));
}

TEST(SplitParts, LeavesColonsInsideOfWords) {
  const Words words{"./a", "b:c", ":d", "e:", "", " :", "x::y"};
  EXPECT_EQ(split_parts(words), Parts{words});
}

TEST(SplitParts, TakesOneColonFromAWordOfMore) {
  EXPECT_EQ(
      split_parts({"./a", "::", ":::", ":", "./b", "::"}),
      (Parts{{"./a", ":", "::"}, {"./b", ":"}}));
}

TEST(OnePart, IsWhatSplitPartsTakesForIt) {
  const Words words{"./a", ":", "::", "b:c", "", ":::", ":"};
  EXPECT_EQ(split_parts(one_part(words)), Parts{words});
}

TEST(ReadPart, TakesItsOwnOptions) {
  for (const Words& words :
       {Words{"-n", "2", "--role", "judge", "--", "./eval", "-n", "8", "--tee"},
        Words{"--role=judge", "--nproc-per-node=2", "./eval", "-n", "8", "--tee"},
        Words{"--nproc_per_node", "2", "--role", "judge", "./eval", "-n", "8", "--tee"},
        Words{"-n2", "--role", "judge", "--", "./eval", "-n", "8", "--tee"}}) {
    const PartArguments part = read_one(words);
    EXPECT_EQ(part.ranks, "2");
    EXPECT_EQ(part.role, "judge");
    EXPECT_EQ(part.command, (Words{"./eval", "-n", "8", "--tee"}));
  }
}

TEST(ReadPart, HasTheDefaultsOfTheFirst) {
  const PartArguments part = read_one({"./server"});
  EXPECT_EQ(part.ranks, "1");
  EXPECT_EQ(part.role, "");
  EXPECT_EQ(part.command, Words{"./server"});
}

TEST(ReadPart, KnowsWhoseTheDashesAre) {
  EXPECT_EQ(read_one({"./p", "a", "--", "b"}).command, (Words{"./p", "a", "--", "b"}));
  EXPECT_EQ(read_one({"--", "./p", "--", "b"}).command, (Words{"./p", "--", "b"}));
  EXPECT_EQ(read_one({"--", "--help"}).command, Words{"--help"});
}

TEST(ReadPart, RefusesOptionsOfTheWholeJobByName) {
  for (const char* option :
       {"--tee",
        "-t",
        "-t3",
        "--tee=3",
        "--redirects",
        "-r",
        "--max-restarts",
        "--max_restarts=2",
        "--prefix",
        "--no-pin",
        "--log-dir",
        "--grace",
        "--nnodes",
        "--hosts",
        "--master-port",
        "--rdzv-id",
        "--standalone",
        "--help",
        "-h"})
    for (const Words& words :
         {Words{option, "3", "--", "./p"}, Words{"-n", "2", option}})
      EXPECT_EQ(
          part_refusal(words),
          text(
              "[cli] expected -n, --role or a program after \":\", got \"",
              option,
              "\", which is for the whole job; put it before the first program"));
}

TEST(ReadPart, RefusesWhatIsNoOption) {
  EXPECT_EQ(
      part_refusal({"--rol", "x", "--", "./p"}),
      "[cli] expected -n, --role or a program after \":\", got \"--rol\"; did you mean "
      "--role?");
  EXPECT_EQ(
      part_refusal({"-q", "./p"}),
      "[cli] expected -n, --role or a program after \":\", got \"-q\"; see trireme run "
      "--help");
  EXPECT_EQ(
      part_refusal({"-"}),
      "[cli] expected -n, --role or a program after \":\", got \"-\"; see trireme run "
      "--help");
  EXPECT_TRUE(part_refusal({"-n"}).starts_with("parser: ")) << part_refusal({"-n"});
}

TEST(ReadPart, RefusesAPartWithoutAProgram) {
  for (const Words& words :
       {Words{}, Words{"--"}, Words{"-n", "2"}, Words{"-n2", "--"}})
    EXPECT_EQ(
        part_refusal(words),
        "[cli] expected a program after \":\", got none; write one, or \"::\" for an "
        "argument that is a colon");
}

TEST(ToPart, ReadsTheNumberOfRanks) {
  const launch::Part part =
      to_part({.ranks = "3", .role = "judge", .command = {"./eval", "x"}});
  EXPECT_EQ(part.ranks, 3);
  EXPECT_EQ(part.role, "judge");
  EXPECT_EQ(part.command, (Words{"./eval", "x"}));
  EXPECT_EQ(to_part({.ranks = "cpu"}).ranks, available_cores());
  EXPECT_THROW(to_part({.ranks = "two"}), InvalidArgument);
}

}  // namespace
}  // namespace trireme::cli
