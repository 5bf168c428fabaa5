// `trireme train` as a person at a terminal meets it: progress, Ctrl-C, what to do
// next.
#include <cstdlib>
#include <filesystem>
#include <pty.h>

#include <gtest/gtest.h>

#include "train_case.h"
#include "trireme/ckpt/checkpoint.h"
#include "trireme/core/machine.h"

namespace trireme::launch {
namespace {

namespace fs = std::filesystem;

/// A terminal whose other end this test reads.
class Terminal {
 public:
  explicit Terminal(unsigned short columns) {
    winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(::openpty(&ours_, &theirs_, nullptr, nullptr, &size), 0);
    for (const int end : {ours_, theirs_})
      ::fcntl(end, F_SETFD, FD_CLOEXEC);
    ::fcntl(ours_, F_SETFL, O_NONBLOCK);
  }
  ~Terminal() {
    ::close(ours_);
    ::close(theirs_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  int theirs() const { return theirs_; }
  const std::string& all() {
    std::array<char, 4096> buffer;
    for (ssize_t got = 0; (got = ::read(ours_, buffer.data(), buffer.size())) > 0;)
      all_.append(buffer.data(), static_cast<size_t>(got));
    return all_;
  }

 private:
  int ours_ = -1;
  int theirs_ = -1;
  std::string all_;
};

class TrainTerminalProcs : public TrainCase {
 protected:
  /// Runs to its end, with stderr at the terminal.
  void run_at(Terminal& terminal, const Words& words) {
    Launched launched(words, [&] { ::dup2(terminal.theirs(), STDERR_FILENO); });
    // A terminal holds little: who prints more waits for its reader.
    EXPECT_TRUE(within(kLong, [&] {
      terminal.all();
      return process_start_time(launched.pid()) == 0;
    }));
    const Ending ending = launched.finish();
    EXPECT_EQ(ending.exit_code, 0) << terminal.all();
    out_ = launched.out();
  }
};

TEST_F(TrainTerminalProcs, ProgressIsOneLineInPlace) {
  for (const char* ranks : {"1", "2"}) {
    Terminal terminal(/*columns=*/70);
    run_at(
        terminal,
        train(
            {"--training.steps",
             "40",
             "--parallelism.ranks",
             ranks,
             "--checkpoint.enable",
             "false"}));
    const std::string& all = terminal.all();
    EXPECT_NE(all.find("\r\033[K"), std::string::npos) << all;
    const size_t last = all.rfind("\r\033[K");
    const std::string line = all.substr(last, all.find('\n', last) - last);
    for (const char* part : {"step 40/40", "loss ", " tokens/s", "0:00 left"})
      EXPECT_NE(line.find(part), std::string::npos) << line;
    EXPECT_LT(line.size(), 70U + 5) << "it would be two lines";
    // Steps are in that one line, and nowhere else.
    EXPECT_EQ(all.find("\nstep "), std::string::npos) << all;
    fs::remove_all(run_);
  }
}

TEST_F(TrainTerminalProcs, APipeGetsPlainLines) {
  Launched launched(train({"--training.steps", "40", "--checkpoint.enable", "false"}));
  EXPECT_EQ(launched.finish(), Ending{}) << launched.err();
  EXPECT_EQ(launched.err().find('\r'), std::string::npos) << launched.err();
  EXPECT_EQ(launched.err().find('\033'), std::string::npos) << launched.err();
  EXPECT_NE(launched.err().find("\nstep 40/40  loss "), std::string::npos);
}

// What a terminal did to a run must not follow it into files.
TEST_F(TrainTerminalProcs, AConfigDoesNotRememberTheTerminal) {
  Terminal terminal(/*columns=*/70);
  run_at(terminal, train({"--training.steps", "1", "--checkpoint.enable", "false"}));
  const auto config = read_text_file((run_ / "config.toml").string());
  ASSERT_TRUE(config);
  EXPECT_NE(config->find("progress = 'auto'"), std::string::npos) << *config;
}

TEST_F(TrainTerminalProcs, CtrlCSavesAndSaysHowToStopAtOnce) {
  for (const char* ranks : {"1", "2"}) {
    Launched launched(train(
        {"--training.steps",
         "1000000",
         "--metrics.log_freq",
         "1",
         "--parallelism.ranks",
         ranks,
         "--parallelism.pipeline_parallel_degree",
         ranks}));
    ASSERT_TRUE(launched.complains("loss ")) << launched.err();
    launched.kill(SIGINT);
    EXPECT_EQ(launched.finish(), Ending{.exit_code = 75}) << launched.err();
    EXPECT_NE(
        launched.err().find("with a checkpoint; Ctrl-C again stops at once"),
        std::string::npos)
        << launched.err();
    EXPECT_TRUE(ckpt::latest_checkpoint(run_ / "checkpoint"));
    fs::remove_all(run_);
  }
}

// In the middle of what takes minutes.
TEST_F(TrainTerminalProcs, ASecondCtrlCStopsAtOnce) {
  Launched launched(train(
      {"--model.dim",
       "256",
       "--model.n_layers",
       "8",
       "--training.global_batch_size",
       "65536",
       "--training.local_batch_size",
       "64",
       "--metrics.log_freq",
       "1",
       "--parallelism.ranks",
       "2",
       "--parallelism.pipeline_parallel_degree",
       "2",
       "--parallelism.pipeline_parallel_schedule",
       "1F1B"}));
  ASSERT_TRUE(launched.complains("schedule: 1F1B")) << launched.err();
  launched.kill(SIGINT);
  ASSERT_TRUE(launched.complains("Ctrl-C again stops at once")) << launched.err();
  EXPECT_FALSE(within(300ms, [&] { return process_start_time(launched.pid()) == 0; }));
  launched.kill(SIGINT);
  EXPECT_EQ(launched.finish(20s), Ending{.exit_code = 128 + SIGINT}) << launched.err();
  EXPECT_EQ(launched.err().find("step 1/"), std::string::npos) << launched.err();
  EXPECT_TRUE(mark_.gone_within(5s));
  EXPECT_FALSE(ckpt::latest_checkpoint(run_ / "checkpoint"));
}

TEST_F(TrainTerminalProcs, WhatItPrintsNextCanBePasted) {
  const Words words = train({"--training.steps", "2", "--parallelism.ranks", "1"});
  Launched launched(words, [] { ::setenv("TRIREME_CALLED_AS", "./my trireme", 1); });
  EXPECT_EQ(launched.finish(), Ending{}) << launched.err();
  const std::string out = launched.out();
  EXPECT_NE(
      out.find(text("sample it:  './my trireme' sample --model ", run_.string())),
      std::string::npos)
      << out;
  EXPECT_NE(out.find("train on:   './my trireme' train "), std::string::npos) << out;
  EXPECT_NE(out.find("your text:  './my trireme' train "), std::string::npos) << out;
}

TEST_F(TrainTerminalProcs, SaysWhyItChoseALayout) {
  if (available_cores() == 1)
    GTEST_SKIP() << "one core leaves nothing to choose";
  const Words job = train({"--checkpoint.enable", "false", "--training.steps"});
  Words few = job;
  few.push_back("2");
  Launched estimated(few);
  EXPECT_EQ(estimated.finish(), Ending{}) << estimated.err();
  EXPECT_NE(estimated.err().find("layout: "), std::string::npos) << estimated.err();
  EXPECT_NE(estimated.err().find(" by estimate\n"), std::string::npos);
  fs::remove_all(run_);
  Words many = job;
  many.push_back("120");
  Launched tried(many);
  EXPECT_EQ(tried.finish(), Ending{}) << tried.err();
  EXPECT_NE(tried.err().find(" tried: "), std::string::npos) << tried.err();
  EXPECT_NE(tried.err().find(" ms a step; "), std::string::npos) << tried.err();
}

TEST_F(TrainTerminalProcs, CtrlCWhileLayoutsAreTriedEndsTheJob) {
  Words words = train({"--training.steps", "1000000", "--model.dim", "64"});
  Launched launched(words);
  // The launcher, a keeper, and a rank that tries a layout.
  ASSERT_TRUE(within(kLong, [this] { return mark_.found().size() >= 3; }));
  launched.kill(SIGINT);
  EXPECT_EQ(launched.finish(20s), Ending{.exit_code = 75}) << launched.err();
}

TEST_F(TrainTerminalProcs, AJobThatGoesOnKeepsItsLayout) {
  if (available_cores() == 1)
    GTEST_SKIP() << "one core leaves nothing to choose";
  Launched first(train(
      {"--training.steps",
       "2",
       "--parallelism.ranks",
       "2",
       "--parallelism.pipeline_parallel_degree",
       "2"}));
  EXPECT_EQ(first.finish(), Ending{}) << first.err();
  Launched second(train({"--training.steps", "4", "--checkpoint.resume", "auto"}));
  EXPECT_EQ(second.finish(), Ending{}) << second.err();
  EXPECT_NE(
      second.err().find("ranks: 2 (1 data parallel x 2 pipeline)"), std::string::npos)
      << second.err();
  Launched other(train(
      {"--training.steps",
       "6",
       "--checkpoint.resume",
       "auto",
       "--parallelism.pipeline_parallel_degree",
       "1"}));
  EXPECT_EQ(other.finish(), Ending{}) << other.err();
  EXPECT_NE(other.err().find(" data parallel x 1 pipeline)"), std::string::npos)
      << other.err();
}

}  // namespace
}  // namespace trireme::launch
