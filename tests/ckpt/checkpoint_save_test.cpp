#include <signal.h>
#include <sys/resource.h>

#include "save_case.h"
#include "trireme/comm/collectives.h"
#include "trireme/testing/scratch_folder.h"
#include "trireme/testing/world.h"

namespace trireme::ckpt {
namespace {

using testing::Backend;
using testing::ScratchFolder;

TEST(CheckpointSaveRanks, EveryLayoutOfRanksWritesTheSameTensors) {
  for (const int ranks : {1, 2, 4})
    for (const int stages : {1, 2, 4}) {
      SCOPED_TRACE(text(ranks, " ranks, ", stages, " stages"));
      const ScratchFolder root;
      testing::run_world(Backend::Local, ranks, [&](const comm::Group& world) {
        const auto folder = save_checkpoint(
            world, root.path(), 3, content_of(world.rank(), ranks, stages, 3));
        EXPECT_EQ(folder, root.path() / "step-3");
        expect_content(Checkpoint(folder), stages, 3);
      });
      EXPECT_EQ(names_in(root.path()), (std::set<std::string>{"step-3"}));
    }
}

TEST(CheckpointSaveRanks, TheFolderIsLaidOutAsTransformersWantsIt) {
  const ScratchFolder root;
  testing::run_world(Backend::Local, 2, [&](const comm::Group& world) {
    save_checkpoint(world, root.path(), 1, content_of(world.rank(), 2, 2, 1));
    save_checkpoint(world, root.path(), 2, content_of(world.rank(), 2, 1, 1));
  });
  EXPECT_EQ(
      names_in(root.path() / "step-1"),
      (std::set<std::string>{
          "checkpoint.json",
          "config.json",
          "trainer.json",
          "model-00001-of-00002.safetensors",
          "model-00002-of-00002.safetensors",
          "model.safetensors.index.json",
          "optimizer-00001-of-00002.safetensors",
          "optimizer-00002-of-00002.safetensors",
          "optimizer.safetensors.index.json"}));
  EXPECT_EQ(
      names_in(root.path() / "step-2"),
      (std::set<std::string>{
          "checkpoint.json",
          "config.json",
          "trainer.json",
          "model.safetensors",
          "optimizer.safetensors"}));
  const SafetensorsFile second(
      root.path() / "step-1" / "model-00002-of-00002.safetensors");
  EXPECT_FALSE(second.has("tied")) << "the first stage has written it";
}

TEST(CheckpointSaveRanks, KeepsTheLastAndReplacesAStepThatIsThere) {
  const ScratchFolder root;
  root.write(".step-1.tmp-0123456789abcdef/half", "of a killed run");
  testing::run_world(Backend::Local, 2, [&](const comm::Group& world) {
    for (const int step : {1, 2, 3, 4, 4})
      save_checkpoint(
          world, root.path(), step, content_of(world.rank(), 2, 2, step), {.keep = 2});
  });
  EXPECT_EQ(names_in(root.path()), (std::set<std::string>{"step-3", "step-4"}));
  testing::run_world(Backend::Local, 1, [&](const comm::Group& world) {
    save_checkpoint(world, root.path(), 4, content_of(0, 1, 1, 44));
  });
  EXPECT_EQ(names_in(root.path()), (std::set<std::string>{"step-3", "step-4"}));
  expect_content(Checkpoint(root.path() / "step-4"), 1, 44);
}

TEST(CheckpointSaveRanks, WithoutOptimizerThereAreNoFilesOfIt) {
  const ScratchFolder root;
  testing::run_world(Backend::Local, 1, [&](const comm::Group& world) {
    CheckpointContent content = content_of(0, 1, 2, 1);
    for (StagePart& part : content.parts)
      part.optimizer.clear();
    const Checkpoint checkpoint(save_checkpoint(world, root.path(), 1, content));
    EXPECT_FALSE(checkpoint.has_optimizer());
    expect_part(refusal([&] { checkpoint.optimizer(); }), "saved without");
  });
}

// What the ranks throw when rank 1 of 3 brings what `spoil` makes of its content.
void expect_refused(
    const std::function<void(CheckpointContent&)>& spoil,
    int spoiler,
    const std::string& part) {
  const ScratchFolder root;
  testing::run_world(Backend::Local, 3, [&](const comm::Group& world) {
    CheckpointContent content = content_of(world.rank(), 3, 3, 1);
    if (world.rank() == spoiler)
      spoil(content);
    try {
      save_checkpoint(world, root.path() / "run", 1, content);
      ADD_FAILURE();
    } catch (const Error& error) {
      expect_part(error.what(), part);
    }
    // The group can go on.
    save_checkpoint(world, root.path(), 2, content_of(world.rank(), 3, 3, 1));
  });
  EXPECT_TRUE(
      !std::filesystem::exists(root.path() / "run") ||
      names_in(root.path() / "run").empty());
}

TEST(CheckpointSaveRanks, WrongContentIsRefusedOnAllRanks) {
  expect_refused([](auto& content) { content.stages = 2; }, 1, "of 2 on rank 1");
  expect_refused(
      [](auto& content) { content.parts.clear(); }, 1, "stage 1 from one rank");
  expect_refused(
      [](auto& content) { content.parts[0].stage = 0; }, 1, "stage 0 again on rank 1");
  expect_refused(
      [](auto& content) {
        content.parts[0].weights[1].second = at::eye(3).to_sparse();
      },
      1,
      "expected a dense tensor \"layer.1.weight\"");
  for (const char* name :
       {"../x", "a/b", "", ".hidden", "checkpoint.json", "model.safetensors"})
    expect_refused([&](auto& content) { content.texts[name] = ""; }, 0, "plain names");
}

TEST(CheckpointSaveRanks, AnUnwritableRootIsAnErrorOnAllRanks) {
  const ScratchFolder folder;
  const auto root = folder.write("file", "in the way");
  testing::run_world(Backend::Local, 2, [&](const comm::Group& world) {
    const auto save = [&] {
      save_checkpoint(world, root, 1, content_of(world.rank(), 2, 2, 1));
    };
    if (world.rank() == 0) {
      expect_part(refusal(save), root.string());
    } else {
      try {
        save();
        ADD_FAILURE();
      } catch (const PeerError& error) {
        EXPECT_EQ(error.rank(), 0);
        expect_part(error.what(), root.string());
      }
    }
    if (world.rank() == 0)
      expect_part(
          refusal([&] {
            save_checkpoint(world, folder.path(), -1, content_of(0, 2, 2, 1));
          }),
          "a step of at least 0");
    else
      EXPECT_THROW(
          save_checkpoint(world, folder.path(), -1, content_of(1, 2, 2, 1)), PeerError);
  });
}

// A limit on file sizes behaves as a full disk does, on one rank alone.
TEST(CheckpointSaveProcs, AFullDiskOnOneRankIsAnErrorOnAllAndLeavesNothing) {
  const ScratchFolder root;
  testing::run_world(Backend::Shm, 2, [&](const comm::Group& world) {
    const auto save = [&](int step) {
      save_checkpoint(
          world, root.path(), step, content_of(world.rank(), 2, 2, step, 100'000));
    };
    save(1);
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    if (world.rank() == 1) {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit small{.rlim_cur = 200'000, .rlim_max = before.rlim_max};
      EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
      expect_part(refusal([&] { save(2); }), "File too large");
      ::setrlimit(RLIMIT_FSIZE, &before);
    } else {
      try {
        save(2);
        ADD_FAILURE();
      } catch (const PeerError& error) {
        EXPECT_EQ(error.rank(), 1);
        expect_part(error.what(), "File too large");
      }
      EXPECT_EQ(names_in(root.path()), (std::set<std::string>{"step-1"}));
    }
    comm::barrier(world);
    save(3);
  });
  EXPECT_EQ(names_in(root.path()), (std::set<std::string>{"step-1", "step-3"}));
  expect_content(Checkpoint(root.path() / "step-1"), 2, 1);
  expect_content(Checkpoint(root.path() / "step-3"), 2, 3);
}

}  // namespace
}  // namespace trireme::ckpt
