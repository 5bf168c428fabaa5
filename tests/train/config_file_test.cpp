#include "trireme/train/config_file.h"

#include <fstream>
#include <functional>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::train {
namespace {

using testing::message_of;

std::string toml_error(const std::string& toml) {
  Config config;
  return message_of<InvalidArgument>([&] { read_toml(config, toml, "job.toml"); });
}

TEST(ConfigFile, ReadsSections) {
  Config config;
  read_toml(
      config,
      "[training]\nsteps = 12\nmax_norm = 0.5\n\n[data]\npath = [\"a\", \"b\"]\n"
      "shuffle = false\n[parallelism]\npipeline_parallel_schedule = \"1F1B\"\n",
      "job.toml");
  EXPECT_EQ(config.training.steps, 12);
  EXPECT_EQ(config.training.max_norm, 0.5);
  EXPECT_EQ(config.data.path, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(config.data.shuffle);
  EXPECT_EQ(config.parallelism.pipeline_parallel_schedule, "1F1B");
}

TEST(ConfigFile, MistakesHaveFileAndLine) {
  EXPECT_EQ(
      toml_error("[training]\n\nstep = 12\n"),
      "[train] job.toml:3: expected a key of a training job, got \"training.step\"; "
      "did "
      "you mean training.steps?");
  EXPECT_EQ(
      toml_error("[training]\nsteps = \"12\"\n"),
      "[train] job.toml:2: expected training.steps to be a whole number of at least 1, "
      "got \"12\"; correct it");
  EXPECT_NE(
      toml_error("[training]\nsteps = \n").find("job.toml:2: expected TOML"),
      std::string::npos);
  EXPECT_NE(
      toml_error("steps = 3\n")
          .find("job.toml:1: expected a section, got the key "
                "\"steps\" outside of one"),
      std::string::npos);
  EXPECT_NE(
      toml_error("[data]\npath = [1]\n").find("a value of another kind"),
      std::string::npos);
  EXPECT_NE(
      toml_error("[data]\npath = 1979-05-27\n").find("a value of another kind"),
      std::string::npos);
}

TEST(ConfigFile, AnEmptySectionMustExistToo) {
  EXPECT_NE(
      toml_error("[foo]\n").find("job.toml:1: expected a section of job"),
      std::string::npos);
  Config config;
  EXPECT_NO_THROW(read_toml(config, "[data]\n", "job.toml"));
}

TEST(ConfigFile, ReadsTheCommandLine) {
  Config config;
  read_arguments(
      config,
      {"--training.steps",
       "3",
       "--optimizer.lr=1e-2",
       "--data.shuffle",
       "--data.path",
       "a.txt,b.txt",
       "--data.shuffle",
       "false",
       "--checkpoint.enable"});
  EXPECT_EQ(config.training.steps, 3);
  EXPECT_EQ(config.optimizer.lr, 0.01);
  EXPECT_FALSE(config.data.shuffle);
  EXPECT_TRUE(config.checkpoint.enable);
  EXPECT_EQ(config.data.path, (std::vector<std::string>{"a.txt", "b.txt"}));
}

TEST(ConfigFile, RefusesWrongWords) {
  const auto read = [](const std::vector<std::string>& words) {
    Config config;
    return message_of<InvalidArgument>([&] { read_arguments(config, words); });
  };
  EXPECT_NE(
      read({"--training.steps"})
          .find("expected a whole number of at least 1 after "
                "--training.steps, got nothing"),
      std::string::npos);
  EXPECT_NE(
      read({"steps"}).find("expected --section.key value, got \"steps\""),
      std::string::npos);
  EXPECT_NE(
      read({"--steps", "3"}).find("expected --section.key, got \"--steps\""),
      std::string::npos);
  EXPECT_NE(read({"--training.steps", "many"}).find("got \"many\""), std::string::npos);
  EXPECT_NE(read({"--training.steps", "3x"}).find("got \"3x\""), std::string::npos);
}

TEST(ConfigFile, WhatIsPrintedReadsBack) {
  Config config;
  config.training.steps = 77;
  config.optimizer.lr = 0.00031;
  config.data.path = {"a \"quoted\" name", "b\\c", "tab\there"};
  config.job.dump_folder = "runs/ü";
  const std::string printed = to_toml(config);
  Config again;
  read_toml(again, printed, "printed");
  EXPECT_EQ(to_toml(again), printed);
  EXPECT_EQ(again.data.path, config.data.path);
  EXPECT_EQ(again.optimizer.lr, config.optimizer.lr);
}

TEST(ConfigFile, NumbersAreTheShortestThatReadBackTheSame) {
  Config config;
  for (const auto& [value, shown] : std::vector<std::pair<double, std::string>>{
           {4e-3, "lr = 0.004 "},
           {0.1, "lr = 0.1 "},
           {1, "lr = 1.0 "},
           {1e-8, "lr = 1e-08 "},
           {3e22, "lr = 3e+22 "},
           {0.30000000000000004, "lr = 0.30000000000000004 "}}) {
    config.optimizer.lr = value;
    const std::string printed = to_toml(config);
    EXPECT_NE(printed.find("\n" + shown), std::string::npos) << printed;
    Config again;
    read_toml(again, printed, "printed");
    EXPECT_EQ(again.optimizer.lr, value);
  }
}

TEST(ConfigFile, ReadsAFile) {
  const testing::ScratchFolder folder;
  const std::string path = (folder.path() / "job.toml").string();
  std::ofstream(path) << "[training]\nseed = 5\n";
  Config config;
  read_config_file(config, path);
  EXPECT_EQ(config.training.seed, 5);
  EXPECT_NE(
      message_of<InvalidArgument>([&] {
        read_config_file(config, path + "x");
      }).find("a config file that can be read"),
      std::string::npos);
}

}  // namespace
}  // namespace trireme::train
