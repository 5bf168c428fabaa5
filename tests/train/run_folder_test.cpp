#include "trireme/train/run_folder.h"

#include <fstream>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/scratch_folder.h"
#include "trireme/train/config_file.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

/// Goes to another folder while it lives.
class Inside {
 public:
  explicit Inside(const fs::path& folder) : before_(fs::current_path()) {
    fs::current_path(folder);
  }
  ~Inside() { fs::current_path(before_); }

 private:
  fs::path before_;
};

TEST(RunFolder, TakesTheNextFreeNumber) {
  const testing::ScratchFolder folder;
  const Inside inside(folder.path());
  EXPECT_EQ(choose_run_folder({}), "runs/1");
  EXPECT_EQ(choose_run_folder({}), "runs/2");
  fs::create_directory("runs/3");
  EXPECT_EQ(choose_run_folder({}), "runs/4");
  Config named;
  named.job.dump_folder = "elsewhere";
  EXPECT_EQ(choose_run_folder(named), "elsewhere");
}

TEST(RunFolder, GoesOnWithTheNewestRunThatHasACheckpoint) {
  const testing::ScratchFolder folder;
  const Inside inside(folder.path());
  Config config;
  config.checkpoint.resume = "auto";
  EXPECT_EQ(choose_run_folder(config), "runs/1") << "there is none";
  for (const char* run : {"2", "10"}) {
    folder.write(text("runs/", run, "/checkpoint/step-5/checkpoint.json"), "{}");
    folder.write(text("runs/", run, "/config.toml"), to_toml(config));
  }
  folder.write("runs/11/metrics.jsonl", "");
  folder.write("runs/other/checkpoint/step-5/checkpoint.json", "{}");
  EXPECT_EQ(choose_run_folder(config), "runs/10");
  config.checkpoint.resume = "never";
  EXPECT_EQ(choose_run_folder(config), "runs/3");
  config.checkpoint.resume = "auto";
  config.training.steps = 7;
  config.optimizer.lr = 1;
  EXPECT_EQ(choose_run_folder(config), "runs/10") << "the same job, trained otherwise";
  config.data.path = {"other.txt"};
  EXPECT_THROW(choose_run_folder(config), InvalidArgument);
}

TEST(RunFolder, MakesWhatIsMissing) {
  const testing::ScratchFolder folder;
  Config config;
  config.job.dump_folder = (folder.path() / "a" / "b").string();
  const RunFolder run = open_run_folder(config);
  EXPECT_TRUE(fs::is_directory(run.path));
  EXPECT_EQ(run.checkpoints, run.path / "checkpoint");
  EXPECT_EQ(run.trace(7).filename(), "trace-7.json");
  std::ofstream(folder.path() / "file") << "x";
  config.job.dump_folder = (folder.path() / "file" / "b").string();
  EXPECT_THROW(open_run_folder(config), InvalidArgument);
}

}  // namespace
}  // namespace trireme::train
