// The command line of `trireme run`. What becomes of the ranks is in tests/integration.
#include "trireme/cli/run.h"

#include <sstream>

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

#include "trireme/cli/front.h"
#include "trireme/core/error.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::cli {
namespace {

using Words = std::vector<std::string>;

RunArguments parse(const Words& words) {
  CLI::App run("test", "run");
  RunArguments arguments;
  add_run_options(run, arguments);
  Words before = split_command(words, arguments.first);
  std::reverse(before.begin(), before.end());
  run.parse(before);
  return arguments;
}

std::string refusal(const Words& words) {
  try {
    parse(words);
    return "took it";
  } catch (const InvalidArgument& error) {
    return error.what();
  } catch (const CLI::ParseError& error) {
    return text("parser: ", error.what());
  }
}

struct RunOutcome {
  int code = 0;
  std::string out;
  std::string err;
};

RunOutcome front(Words words) {
  words.insert(words.begin(), "run");
  std::ostringstream out, err;
  const int code = run_front(words, out, err);
  return {code, out.str(), err.str()};
}

TEST(RunArguments, HaveTheirDefaults) {
  const RunArguments arguments = parse({"--", "./train"});
  EXPECT_EQ(arguments.first.ranks, "1");
  EXPECT_EQ(arguments.max_restarts, 0);
  EXPECT_EQ(arguments.grace_seconds, 10);
  EXPECT_FALSE(arguments.prefix);
  EXPECT_FALSE(arguments.no_pin);
  EXPECT_EQ(arguments.first.command, Words{"./train"});
}

TEST(RunArguments, AreReadInBothSpellings) {
  for (const Words& words :
       {Words{
            "-n",
            "4",
            "--max-restarts",
            "3",
            "--log-dir",
            "logs",
            "--master-addr",
            "h",
            "--master-port",
            "99",
            "--rdzv-id",
            "job",
            "--no-python"},
        Words{
            "--nproc-per-node=4",
            "--max_restarts=3",
            "--log_dir=logs",
            "--master_addr=h",
            "--master_port=99",
            "--rdzv_id=job",
            "--no_python"},
        Words{
            "--nproc_per_node",
            "4",
            "--max_restarts",
            "3",
            "--log_dir",
            "logs",
            "--master_addr",
            "h",
            "--master_port",
            "99",
            "--rdzv_id",
            "job",
            "--standalone"}}) {
    Words all = words;
    for (const char* word :
         {"--tee",
          "3",
          "-r",
          "0:1",
          "--prefix",
          "--no-pin",
          "--grace",
          "0.5",
          "--nnodes",
          "1",
          "--",
          "x"})
      all.emplace_back(word);
    const RunArguments arguments = parse(all);
    EXPECT_EQ(arguments.first.ranks, "4");
    EXPECT_EQ(arguments.max_restarts, 3);
    EXPECT_EQ(arguments.log_dir, "logs");
    EXPECT_EQ(arguments.master_addr, "h");
    EXPECT_EQ(arguments.master_port, 99);
    EXPECT_EQ(arguments.run_id, "job");
    EXPECT_EQ(arguments.tee, "3");
    EXPECT_EQ(arguments.redirects, "0:1");
    EXPECT_EQ(arguments.grace_seconds, 0.5);
    EXPECT_EQ(arguments.nodes, "1");
    EXPECT_TRUE(arguments.prefix);
    EXPECT_TRUE(arguments.no_pin);
    EXPECT_EQ(arguments.first.command, Words{"x"});
  }
}

TEST(RunArguments, LeaveTheProgramItsOwn) {
  const Words own{"./train", "--tee", "3", "-n", "8", "--help", "", "a b", "-x"};
  Words words{"-n", "2", "--"};
  words.insert(words.end(), own.begin(), own.end());
  EXPECT_EQ(parse(words).first.command, own);
  EXPECT_EQ(parse(words).first.ranks, "2");
  words.erase(words.begin() + 2);  // also without dashes
  EXPECT_EQ(parse(words).first.command, own);
  EXPECT_EQ(parse(words).first.ranks, "2");
}

TEST(RunArguments, KnowWhoseTheDashesAre) {
  EXPECT_EQ(
      parse({"./p", "a", "--", "b"}).first.command, (Words{"./p", "a", "--", "b"}));
  EXPECT_EQ(parse({"--", "./p", "--", "b"}).first.command, (Words{"./p", "--", "b"}));
  EXPECT_EQ(parse({"-n", "2", "./p", "--"}).first.command, (Words{"./p", "--"}));
}

TEST(RunArguments, TakeSeveralPrograms) {
  for (const Words& words :
       {Words{
            "-n",
            "4",
            "--prefix",
            "--",
            "./a",
            "x",
            ":",
            "-n",
            "2",
            "--",
            "./b",
            ":",
            "./c",
            "::"},
        Words{
            "-n",
            "4",
            "--prefix",
            "./a",
            "x",
            ":",
            "-n",
            "2",
            "--",
            "./b",
            ":",
            "--",
            "./c",
            "::"}}) {
    const RunArguments arguments = parse(words);
    EXPECT_TRUE(arguments.prefix);
    EXPECT_EQ(arguments.first.ranks, "4");
    EXPECT_EQ(arguments.first.command, (Words{"./a", "x"}));
    ASSERT_EQ(arguments.others.size(), 2u);
    EXPECT_EQ(arguments.others[0].ranks, "2");
    EXPECT_EQ(arguments.others[0].command, Words{"./b"});
    EXPECT_EQ(arguments.others[1].ranks, "1");
    EXPECT_EQ(arguments.others[1].command, (Words{"./c", ":"}));
  }
  EXPECT_EQ(parse({"--role", "r", "./a"}).first.role, "r");
  EXPECT_EQ(parse({"--rdzv-id", ":", "./a"}).run_id, ":") << "an option's value";
  EXPECT_EQ(parse({"sh", "-c", "::"}).first.command, (Words{"sh", "-c", ":"}));
}

TEST(RunArguments, RefuseAPartWithoutAProgram) {
  for (const Words& words : {Words{":", "./b"}, Words{"-n", "2", "--", ":", "./b"}})
    EXPECT_TRUE(
        refusal(words).starts_with("[cli] expected a program to run, got none; "))
        << refusal(words);
  for (const Words& words :
       {Words{"./a", ":"},
        Words{"--", "./a", ":", ":", "./b"},
        Words{"./a", ":", "--"}})
    EXPECT_TRUE(
        refusal(words).starts_with("[cli] expected a program after \":\", got none; "))
        << refusal(words);
}

TEST(RunArguments, RefuseWhatIsNoOption) {
  EXPECT_EQ(
      refusal({"--max-restart", "3", "./p"}),
      "[cli] expected an option of trireme run or a program, got \"--max-restart\"; "
      "did "
      "you mean --max-restarts?");
  EXPECT_TRUE(refusal({"-q", "--", "./p"})
                  .starts_with("[cli] expected an option of trireme run or a program"))
      << refusal({"-q", "--", "./p"});
  for (const Words& words :
       {Words{}, Words{"-n", "2"}, Words{"--"}, Words{"-n", "2", "--"}})
    EXPECT_TRUE(
        refusal(words).starts_with("[cli] expected a program to run, got none; "))
        << refusal(words);
}

TEST(RunArguments, RefuseValuesOutsideTheirRange) {
  for (const Words& words :
       {Words{"--grace", "-1"},
        Words{"--grace", "1e9"},
        Words{"--grace", "x"},
        Words{"--max-restarts", "-1"},
        Words{"--max-restarts", "x"},
        Words{"--master-port", "0"},
        Words{"--master-port", "65536"},
        Words{"--log-dir"}}) {
    Words all = words;
    if (words.size() > 1)
      all.insert(all.end(), {"--", "true"});
    EXPECT_TRUE(refusal(all).starts_with("parser: ")) << words[0] << refusal(all);
  }
}

TEST(RunCommand, HelpsWithExamples) {
  const RunOutcome outcome = front({"--help"});
  EXPECT_EQ(outcome.code, 0);
  for (const char* part :
       {"Usage: trireme run [OPTIONS] [--] PROGRAM [ARGUMENTS]",
        "[: [-n N] [--role NAME] [--] PROGRAM [ARGUMENTS]]",
        "--nproc-per-node",
        "--role",
        "trireme run -n 4 -- ./train --epochs 2",
        "trireme run -n 4 -- ./trainer : -n 1 -- ./server"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << outcome.out;
}

TEST(RunCommand, WrongUsageIsTwoWithAReason) {
  const testing::ScratchFolder folder;
  const std::string plain = folder.write("plain", "text");
  const std::pair<Words, const char*> cases[] = {
      {{}, "trireme: [cli] expected a program to run, got none; "},
      {{"-n", "0", "--", "true"}, "at least one rank, got 0; "},
      {{"-n", "-2", "--", "true"}, "at least one rank, got -2"},
      {{"-n", "10000", "--", "true"}, "at most 2048 ranks on one host, got 10000; "},
      {{"-n", "two", "--", "true"}, "trireme: [cli] expected the number of ranks (-n)"},
      {{"--nnodes", "2", "--node-rank", "2", "--", "true"},
       "trireme: [launch] expected a node's number from 0 to 1, got 2; "},
      {{"--nnodes", "many", "--", "true"},
       "trireme: [cli] expected --nnodes to be a number of hosts from 1 to 10000, or "
       "bounds as 2:4, got "
       "\"many\""},
      {{"--nnodes", "0", "--", "true"},
       "trireme: [cli] expected --nnodes to be a number of hosts from 1 to 10000, or "
       "bounds as 2:4, got "
       "\"0\""},
      {{"--nnodes", "::", "--", "true"},
       "trireme: [cli] expected --nnodes to be a number of hosts from 1 to 10000, or "
       "bounds as 2:4, got "
       "\"::\""},
      {{"--tee", "4", "--", "true"}, "--tee to be 0 (none)"},
      {{"--redirects", "1:1", "--", "true"},
       "redirects and tee for ranks below 1, got one for rank "
       "1"},
      {{"--grace", "nan", "--", "true"},
       "trireme: [cli] expected --grace to be a time in seconds, got nan"},
      {{"--tee", "3", "--log-dir", plain, "--", "true"}, "to write logs to "},
      {{"--", "/no/such/program"}, "a program that can be run"},
      {{"true", ":", "/no/such/program"}, "a program that can be run"},
      {{"true", ":", "true"}, "two called \"true\"; name one of them with --role"},
      {{"true", ":", "--prefix", "false"}, "\"--prefix\", which is for the whole job"},
      {{"--nnodes", "2", "true", ":", "false"},
       "one program for a job of several hosts"},
      {{"--", plain}, "a program that can be run"}};
  for (const auto& [words, reason] : cases) {
    const RunOutcome outcome = front(words);
    EXPECT_EQ(outcome.code, 2) << reason;
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(outcome.err.starts_with("trireme: [")) << outcome.err;
    EXPECT_NE(outcome.err.find(reason), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find('\n'), outcome.err.size() - 1) << "one line";
  }
  EXPECT_EQ(front({"--grace", "-1", "--", "true"}).code, 2);
}

TEST(RunCommandProcs, GivesTheCodeOfTheRanks) {
  EXPECT_EQ(front({"-n", "2", "--", "true"}).code, 0);
  EXPECT_EQ(front({"-n", "2", "--", "sh", "-c", "exit 3"}).code, 3);
  EXPECT_EQ(front({"sh", "-c", "kill -9 $$"}).code, 137);
  EXPECT_EQ(front({"true", ":", "-n", "2", "sh", "-c", "exit 5"}).code, 5);
  EXPECT_EQ(front({"sh", "-c", "::"}).code, 0);
}

TEST(RunProcs, AFolderForLogsAloneIsNotSilentlyIgnored) {
  const testing::ScratchFolder folder;
  const RunOutcome outcome = front({"--log-dir", folder.path().string(), "--", "true"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(
      outcome.err,
      "trireme: --log-dir alone writes nothing; add --tee 3 or --redirects 3\n");
}

}  // namespace
}  // namespace trireme::cli
