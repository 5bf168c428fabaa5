#include "trireme/ckpt/checkpoint_folder.h"

#include <set>
#include <signal.h>

#include "helpers.h"
#include "trireme/ckpt/manifest.h"
#include "trireme/core/durable_file.h"
#include "trireme/testing/scratch_folder.h"
#include "trireme/testing/world.h"

namespace trireme::ckpt {
namespace {

namespace fs = std::filesystem;
using testing::ScratchFolder;

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

void write_step(
    const ScratchFolder& root, int64_t step, const std::string& word = "w") {
  root.write(step_name(step) + "/" + kManifestName, "{}");
  root.write(step_name(step) + "/word", word);
}

void publish_step(
    const fs::path& root,
    int64_t step,
    const std::string& word,
    Replace how = Replace::Exchange) {
  TemporaryFolder folder(root, step);
  write_durably(folder.path() / kManifestName, "{}");
  write_durably(folder.path() / "word", word);
  folder.publish(how);
}

TEST(CheckpointFolder, StepNamesAreExact) {
  EXPECT_EQ(step_name(12), "step-12");
  EXPECT_EQ(parse_step_name("step-12"), 12);
  EXPECT_EQ(parse_step_name("step-0"), 0);
  for (const char* other :
       {"step-",
        "step-012",
        "step--1",
        "step-1 ",
        "step-1.bak",
        "Step-1",
        "12",
        "step-99999999999999999999"})
    EXPECT_FALSE(parse_step_name(other)) << other;
}

TEST(CheckpointFolder, ListsCompleteStepsInTheirOrder) {
  const ScratchFolder root;
  for (const int64_t step : {10, 9, 200})
    write_step(root, step);
  root.write("step-300/other", "");
  root.write(".step-400.tmp-0123456789abcdef/checkpoint.json", "{}");
  root.write("step-7", "a file");
  EXPECT_EQ(checkpoint_steps(root.path()), (std::vector<int64_t>{9, 10, 200}));
  EXPECT_TRUE(checkpoint_steps(root.path() / "none").empty());
  expect_part(
      refusal([&] { checkpoint_steps(root.path() / "step-7"); }), "Not a directory");
}

TEST(CheckpointFolder, IsHiddenUntilItIsPublishedAndGoesIfItIsNot) {
  const ScratchFolder root;
  const fs::path inside = root.path() / "run" / "checkpoint";
  {
    const TemporaryFolder folder(inside, 3);
    EXPECT_TRUE(folder.path().filename().string().starts_with(".step-3.tmp-"));
    write_durably(folder.path() / "a", "a");
  }
  EXPECT_TRUE(names_in(inside).empty());
  publish_step(inside, 3, "one");
  EXPECT_EQ(names_in(inside), (std::set<std::string>{"step-3"}));
}

TEST(CheckpointFolder, AStepThatIsThereIsReplaced) {
  const ScratchFolder root;
  publish_step(root.path(), 3, "one");
  for (const Replace how : {Replace::Exchange, Replace::PutAside}) {
    const std::string word = how == Replace::Exchange ? "two" : "three";
    publish_step(root.path(), 3, word, how);
    EXPECT_EQ(names_in(root.path()), (std::set<std::string>{"step-3"}));
    EXPECT_EQ(read_file(root.path() / "step-3" / "word", 10), word);
  }
}

TEST(CheckpointFolder, WhatIsNoCheckpointOfOursIsNotReplaced) {
  const ScratchFolder root;
  root.write("step-1/.metadata", "of another program");
  root.write("step-2", "a file");
  for (const int64_t step : {1, 2})
    expect_part(
        refusal([&] { TemporaryFolder folder(root.path(), step); }), step_name(step));
  EXPECT_EQ(names_in(root.path()), (std::set<std::string>{"step-1", "step-2"}));
  expect_part(
      refusal([&] { TemporaryFolder folder(root.path() / "step-2", 1); }), "step-2");
}

TEST(CheckpointFolder, LeftoversGoAndAllElseStays) {
  const ScratchFolder root;
  write_step(root, 5);
  root.write(".step-6.tmp-0123456789abcdef/model.safetensors", "half");
  root.write(".step-1.gone-0123456789abcdef/model.safetensors", "half");
  root.write(".step-5.old-0123456789abcdef/word", "former");
  // Not quite our pattern.
  const std::set<std::string> others = {
      ".step-6.tmp-0123",
      ".step-6.bak-0123456789abcdef",
      "step-6.tmp-0123456789abcdef",
      ".step-06.tmp-0123456789abcdef",
      ".step-6.tmp-0123456789ABCDEF"};
  for (const std::string& name : others)
    root.write(name + "/x", "");
  root.write(".step-8.tmp-0123456789abcdef", "a file");
  remove_leftovers(root.path());
  std::set<std::string> wanted = others;
  wanted.insert({"step-5", ".step-8.tmp-0123456789abcdef"});
  EXPECT_EQ(names_in(root.path()), wanted);
  EXPECT_EQ(read_file(root.path() / "step-5" / "word", 10), "w");
}

TEST(CheckpointFolder, WhatWasPutAsideComesBack) {
  const ScratchFolder root;
  root.write(".step-5.old-0123456789abcdef/word", "former");
  remove_leftovers(root.path());
  EXPECT_EQ(read_file(root.path() / "step-5" / "word", 10), "former");
}

TEST(CheckpointFolder, WhatIsInUseIsNoLeftover) {
  const ScratchFolder root;
  const TemporaryFolder folder(root.path(), 3);
  EXPECT_EQ(FolderLock(folder.path()).state(), FolderLock::State::Busy);
  remove_leftovers(root.path());
  EXPECT_TRUE(fs::exists(folder.path()));
}

TEST(CheckpointFolderProcs, WhatAKilledProcessHeldIsALeftover) {
  const ScratchFolder root;
  testing::Processes processes;
  processes.start([&] {
    const TemporaryFolder folder(root.path(), 3);
    root.write("ready", "");
    ::pause();
    return 0;
  });
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  while (!fs::exists(root.path() / "ready") && !deadline.expired())
    ::usleep(1000);
  remove_leftovers(root.path());
  EXPECT_EQ(names_in(root.path()).size(), 2U);
  processes.kill(0, SIGKILL);
  processes.wait(std::chrono::seconds(10));
  remove_leftovers(root.path());
  EXPECT_EQ(names_in(root.path()), (std::set<std::string>{"ready"}));
}

TEST(CheckpointFolder, LaterOnesAreSetAside) {
  const ScratchFolder root;
  for (const int64_t step : {1, 2, 10})
    write_step(root, step);
  root.write("step-10.aside-1/word", "of an earlier time");
  root.write("step-3/not-ours", "");
  const auto moved = set_later_aside(root.path(), 1);
  EXPECT_EQ(
      moved,
      (std::vector<fs::path>{
          root.path() / "step-2.aside-1", root.path() / "step-10.aside-2"}));
  EXPECT_EQ(checkpoint_steps(root.path()), std::vector<int64_t>{1});
  EXPECT_EQ(read_file(root.path() / "step-10.aside-2" / "word", 10), "w");
  EXPECT_TRUE(fs::exists(root.path() / "step-3"));
  EXPECT_TRUE(set_later_aside(root.path(), 1).empty());
  remove_leftovers(root.path());
  prune_checkpoints(root.path(), 1, 1);
  EXPECT_TRUE(fs::exists(root.path() / "step-2.aside-1"));
}

TEST(CheckpointFolder, PrunesAllButTheHighest) {
  const ScratchFolder root;
  for (const int64_t step : {1, 2, 10, 9})
    write_step(root, step);
  root.write("step-3/not-ours", "");
  prune_checkpoints(root.path(), 0, 10);
  EXPECT_EQ(checkpoint_steps(root.path()).size(), 4U);
  prune_checkpoints(root.path(), 2, 10);
  EXPECT_EQ(
      names_in(root.path()), (std::set<std::string>{"step-9", "step-10", "step-3"}));
  // The one just written stays, also if others have higher numbers.
  write_step(root, 4);
  prune_checkpoints(root.path(), 2, 4);
  EXPECT_EQ(checkpoint_steps(root.path()), (std::vector<int64_t>{4, 10}));
  prune_checkpoints(root.path(), 1, 4);
  EXPECT_EQ(checkpoint_steps(root.path()), (std::vector<int64_t>{4}));
}

}  // namespace
}  // namespace trireme::ckpt
