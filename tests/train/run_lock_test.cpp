// Two processes in one folder are in tests/integration/train_run_test.cpp.
#include "trireme/train/run_lock.h"

#include <array>
#include <atomic>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tiny_job.h"
#include "trireme/ckpt/folder_lock.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;
using LockState = ckpt::FolderLock::State;

std::string lock_error(const fs::path& run) {
  return testing::message_of<InvalidArgument>([&] { const RunLock lock(run); });
}

TEST(RunLock, NamesWhoHasIt) {
  const testing::ScratchFolder folder;
  const fs::path run = folder.path() / "run";
  EXPECT_NO_THROW(check_unlocked(run)) << "there is none yet";
  fs::create_directory(run);
  fs::create_directory_symlink(run, folder.path() / "link");
  auto lock = std::make_unique<RunLock>(run);
  for (const char* name : {"run", "run/", "link"}) {
    const std::string error = lock_error(folder.path() / name);
    EXPECT_TRUE(testing::contains(error, text("process ", ::getpid(), " on ")));
    EXPECT_TRUE(testing::contains(error, "set job.dump_folder to another"));
    EXPECT_THROW(check_unlocked(folder.path() / name), InvalidArgument);
  }
  lock.reset();
  EXPECT_NO_THROW(check_unlocked(run));
  EXPECT_TRUE(fs::is_empty(run));
}

TEST(RunLock, AFileThatAKilledJobHasLeftNamesNobody) {
  const testing::ScratchFolder folder;
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  // No process has that number: the largest that Linux gives is 4194304.
  folder.write("job.pid", text("4194305 ", host.data(), "\n"));
  EXPECT_NO_THROW(RunLock(folder.path())) << "nor does it keep anybody out";
  folder.write("job.pid", text("4194305 ", host.data(), "\n"));
  const ckpt::FolderLock other(folder.path());
  EXPECT_TRUE(testing::contains(lock_error(folder.path()), "where another process "));
}

TEST(RunLockRanks, AJobHoldsItsFolderToItsEnd) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.training.steps = 2;
  const fs::path run = config.job.dump_folder;
  std::atomic<int> busy{0};
  const auto look = [&] {
    busy += ckpt::FolderLock(run).state() == LockState::Busy ? 1 : 0;
    return false;
  };
  run_job(config, 2, 1, {.should_stop = look});
  EXPECT_EQ(busy, 4) << "on two ranks in two steps";
  EXPECT_EQ(ckpt::FolderLock(run).state(), LockState::Held);
  EXPECT_FALSE(fs::exists(run / "job.pid"));
}

TEST(RunLockRanks, AFolderThatAnotherJobUsesIsRefusedOnAllRanks) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.training.steps = 1;
  const JobOutcome before = run_job(config, 1, 1);
  config.checkpoint.resume = "auto";
  config.training.steps = 2;
  config.parallelism.pipeline_parallel_degree = 2;
  std::atomic<int> refused{0};
  const auto enter = [&] {
    comm::run_local(2, [&](const comm::Group& world) {
      try {
        train(world, config);
      } catch (const InvalidArgument& error) {
        ++refused;
        EXPECT_TRUE(testing::contains(error.what(), config.job.dump_folder));
        EXPECT_TRUE(testing::contains(error.what(), "job.dump_folder"));
      }
    });
  };
  {
    const ckpt::FolderLock other(config.job.dump_folder);
    enter();
    EXPECT_EQ(refused, 2);
    EXPECT_TRUE(fs::exists(before.result.checkpoint));
  }
  enter();
  EXPECT_EQ(refused, 2) << "it is free again";
}

TEST(RunLockRanks, TheNewestRunIsRefusedByNameWhileAnotherJobUsesIt) {
  const testing::ScratchFolder folder;
  Config config = tiny_config(folder);
  config.job.dump_folder = "";
  config.training.steps = 1;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  run_job_there(config, 1, 1);
  run_job_there(config, 1, 1);
  config.checkpoint.resume = "auto";
  config.training.steps = 2;
  {
    const ckpt::FolderLock other("runs/2");
    const std::string error =
        testing::message_of<InvalidArgument>([&] { run_job_there(config, 1, 1); });
    EXPECT_TRUE(testing::contains(error, "runs/2")) << error;
  }
  fs::current_path(before);
}

}  // namespace
}  // namespace trireme::train
