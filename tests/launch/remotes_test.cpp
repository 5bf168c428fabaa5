// What other hosts are told, and what becomes of the commands that reach them.
#include "trireme/launch/remotes.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "launched.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::launch {
namespace {

TEST(ShellWord, StaysOneWord) {
  EXPECT_EQ(shell_word("a-b/c.d=1"), "a-b/c.d=1");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's $x"), "'it'\\''s $x'");
  EXPECT_EQ(shell_word("~"), "'~'");
}

TEST(ShellWordProcs, ComesOutOfAShellAsItWentIn) {
  for (const std::string& word :
       {std::string("it's"),
        std::string("$(id) `id` \"x\" \\ ; & | * ? ~ # !"),
        std::string("two\nlines"),
        std::string()}) {
    Launched shell({"sh", "-c", text("printf %s ", shell_word(word))});
    EXPECT_EQ(shell.finish(), Ending{});
    EXPECT_EQ(shell.out(), word);
  }
}

TEST(VariableBlock, SetsWhatItWasMadeOf) {
  TestPipe pipe;
  const std::string block = variable_block(
      {{"TRIREME_TEST_A", "1 = 2"},
       {"TRIREME_TEST_B", ""},
       {"TRIREME_TEST_C", "a\nb"}});
  const std::string all = block + "for the program";
  ASSERT_EQ(
      ::write(pipe.ends[1], all.data(), all.size()), static_cast<ssize_t>(all.size()));
  set_variables_from(pipe.ends[0]);
  EXPECT_STREQ(std::getenv("TRIREME_TEST_A"), "1 = 2");
  EXPECT_STREQ(std::getenv("TRIREME_TEST_B"), "");
  EXPECT_EQ(std::getenv("TRIREME_TEST_C"), nullptr) << "it has two lines";
  char rest[64] = {};
  EXPECT_EQ(::read(pipe.ends[0], rest, sizeof rest), 15) << "and no more is taken";
  for (const char* name : {"TRIREME_TEST_A", "TRIREME_TEST_B"})
    ::unsetenv(name);
}

TEST(VariableBlock, ThatIsNoneIsRefused) {
  for (const char* block : {"", "A=1\n", "A=1", "no name\n\n", "=1\n\n"}) {
    TestPipe pipe;
    ASSERT_GE(::write(pipe.ends[1], block, std::string(block).size()), 0);
    pipe.close(1);
    EXPECT_THROW(set_variables_from(pipe.ends[0]), InvalidArgument) << block;
  }
  ::unsetenv("A");
  EXPECT_THROW(
      variable_block({{"TRIREME_MUCH", std::string(100'000, 'x')}}), InvalidArgument);
}

TEST(SharedVariables, AreThoseOfTheJobWithItsKey) {
  const Environment env{
      {"HOME", "/root"},
      {"OMP_NUM_THREADS", "3"},
      {"GLIBC_TUNABLES", "x"},
      {"TRIREME_TIMEOUT", "9"},
      {"TRIREME_STORE", "tcp://a:1"},
      {"TRIREME_RANK_ROLL", "/proc/1/fd/3"},
      {"TRIREME_JOB_KEY_FILE", "/root/job.key"}};
  EXPECT_EQ(
      shared_variables(env, "0123"),
      (Environment::Variables{
          {"OMP_NUM_THREADS", "3"},
          {"GLIBC_TUNABLES", "x"},
          {"TRIREME_TIMEOUT", "9"},
          {"TRIREME_JOB_KEY", "0123"}}));
  EXPECT_TRUE(shared_variables(env, "").contains("TRIREME_JOB_KEY_FILE"));
}

class RemotesProcs : public ::testing::Test {
 protected:
  // Attends until there is trouble, or all have ended.
  static std::string trouble_of(Remotes& remotes) {
    std::string trouble;
    within(kLong, [&] {
      trouble = remotes.attend();
      return !trouble.empty() || remotes.fds().size() == 1;
    });
    return trouble;
  }
};

TEST_F(RemotesProcs, RunInTheSameFolderWithTheBlockOnStdin) {
  const testing::ScratchFolder folder;
  const std::string out = folder.path() / "out file";
  Remotes remotes(
      {{.host = "b",
        .command = {"sh", "-c", "{ pwd; echo \"$1\"; cat; } > \"$0\"", out, "a 'b'"}}},
      {"sh", "-c", "eval \"$1\""},
      "A=1\n\n",
      ProcessState::now());
  EXPECT_EQ(
      trouble_of(remotes),
      "expected to start a node on b, but its command exited with code 0");
  EXPECT_EQ(
      read_text_file(out),
      text(std::filesystem::current_path().string(), "\na 'b'\nA=1\n\n"));
}

TEST_F(RemotesProcs, SayHowOneEndedAndItsLastLine) {
  Remotes remotes(
      {{.host = "b", .command = {"sh", "-c", "echo no key >&2; exit 9"}}},
      {"sh", "-c", "eval \"$1\""},
      "\n",
      ProcessState::now());
  EXPECT_EQ(
      trouble_of(remotes),
      "expected to start a node on b, but its command exited with code 9: no key");
}

TEST_F(RemotesProcs, EndWithTheirObject) {
  const Mark mark;
  {
    const std::vector<std::string> stubborn = {
        "sh", "-c", "trap '' TERM; while :; do sleep 1; done", mark.word()};
    Remotes remotes(
        {{.host = "b",
          .command = {"sh", "-c", "while :; do sleep 1; done", mark.word()}},
         {.host = "c", .command = stubborn}},
        {"sh", "-c", "eval \"$1\""},
        "\n",
        ProcessState::now());
    EXPECT_TRUE(within(kLong, [&] { return mark.found().size() >= 2; }));
  }
  EXPECT_TRUE(mark.gone_within(5s));
}

}  // namespace
}  // namespace trireme::launch
