#include "trireme/train/config_origin.h"

#include <gtest/gtest.h>

#include "trireme/testing/message.h"
#include "trireme/train/config_file.h"

namespace trireme::train {
namespace {

Config job(const std::string& toml) {
  Config config;
  read_toml(config, toml, "job.toml");
  return config;
}

std::string error_of(const Config& config) {
  return testing::message_of<InvalidArgument>([&] { check_config(config); });
}

TEST(ConfigOrigin, RemembersWhoHasSetAKeyLast) {
  Config config = job("[training]\nsteps = 3\nseq_len = 8\n");
  EXPECT_EQ(config.origins.at("training.steps"), "job.toml:2");
  set_key(config, "training.steps", "4");
  EXPECT_EQ(config.origins.at("training.steps"), "the command line");
  EXPECT_EQ(config.origins.at("training.seq_len"), "job.toml:3");
  EXPECT_FALSE(config.origins.contains("training.seed"));
}

TEST(ConfigOrigin, StandsInFrontOfWhatNamesTheKey) {
  const Config config = job("[training]\nsteps = 3\nseq_len = 8\n[model]\ndim = 16\n");
  EXPECT_EQ(
      with_origins(config, "[train] expected training.steps to be 4"),
      "[train] job.toml:2: expected training.steps to be 4");
  EXPECT_EQ(
      with_origins(config, "[x] expected model.dim and training.seq_len."),
      "[x] job.toml:5, job.toml:3: expected model.dim and training.seq_len.");
  // Neither parts of other names nor keys that nobody has set.
  for (const char* message :
       {"[train] expected my.training.steps",
        "[train] expected training.steps_more",
        "[train] expected \"training.steps.txt\"",
        "[train] expected training.seed",
        "nothing"})
    EXPECT_EQ(with_origins(config, message), message);
}

TEST(ConfigOrigin, ErrorsOfOthersGetTheKey) {
  const auto fail = [](auto error) { return [error]() -> int { throw error; }; };
  try {
    about("data.tokenizer", fail(InvalidArgument("[data] expected a, got b")));
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "[train] data.tokenizer: expected a, got b");
  }
  EXPECT_THROW(about("data.path", fail(NotSupported("no"))), NotSupported);
  EXPECT_THROW(about("data.path", fail(PeerError(1, "gone"))), PeerError);
  EXPECT_EQ(about("data.path", [] { return 3; }), 3);
}

TEST(ConfigOrigin, ChecksOfAConfigSayWhere) {
  EXPECT_EQ(
      error_of(job("[model]\ndim = 130\nn_heads = 4\n")),
      "[train] job.toml:2, job.toml:3: expected model.dim to be a multiple of "
      "model.n_heads, got 130 and 4; change one of them");
  EXPECT_TRUE(
      error_of(job("[model]\nname = \"gpt3\"\n"))
          .starts_with(
              "[train] job.toml:2: expected model.name to be one of gpt2, llama, "));
  EXPECT_TRUE(error_of(job("[model]\nname = \"gpt3\"\n"))
                  .ends_with("got \"gpt3\"; did you mean gpt2?"));
  const std::string schedule =
      error_of(job("\n[parallelism]\npipeline_parallel_schedule = \"ZBVZeroBuble\"\n"));
  EXPECT_TRUE(schedule.starts_with(
      "[train] job.toml:3: parallelism.pipeline_parallel_schedule: "))
      << schedule;
  EXPECT_NE(schedule.find("the name of a schedule"), std::string::npos) << schedule;
  EXPECT_TRUE(schedule.ends_with("did you mean ZBVZeroBubble?")) << schedule;
}

}  // namespace
}  // namespace trireme::train
