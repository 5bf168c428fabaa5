#include "trireme/ckpt/checkpoint.h"

#include <fstream>

#include "save_case.h"
#include "trireme/comm/init.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::ckpt {
namespace {

using testing::ScratchFolder;

void save(const std::filesystem::path& root, int64_t step, int stages = 2) {
  comm::run_local(1, [&](const comm::Group& alone) {
    save_checkpoint(
        alone, root, step, content_of(0, 1, stages, static_cast<double>(step)));
  });
}

TEST(Checkpoint, KnowsWhatItHolds) {
  const ScratchFolder root;
  save(root.path(), 7);
  const Checkpoint checkpoint(root.path() / "step-7");
  EXPECT_EQ(checkpoint.step(), 7);
  EXPECT_EQ(checkpoint.stages(), 2);
  EXPECT_EQ(checkpoint.folder(), root.path() / "step-7");
  EXPECT_TRUE(checkpoint.has_optimizer());
  EXPECT_TRUE(checkpoint.has_text("config.json"));
  EXPECT_EQ(checkpoint.text("config.json"), "{}");
  for (const char* none :
       {"other.json", "../x", "checkpoint.json", "model.safetensors.index.json"}) {
    EXPECT_FALSE(checkpoint.has_text(none)) << none;
    expect_part(refusal([&] { checkpoint.text(none); }), none);
  }
  expect_content(checkpoint, 2, 7);
}

TEST(Checkpoint, MayBeMovedUnderAnotherName) {
  const ScratchFolder root;
  save(root.path(), 7);
  std::filesystem::rename(root.path() / "step-7", root.path() / "best");
  EXPECT_EQ(Checkpoint(root.path() / "best").step(), 7);
}

TEST(Checkpoint, NamesTheFileThatIsDamaged) {
  const ScratchFolder root;
  save(root.path(), 7);
  const auto folder = root.path() / "step-7";
  for (const std::string& name : names_in(folder)) {
    const auto file = folder / name, aside = root.path() / "aside";
    std::filesystem::copy_file(file, aside);
    std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
    expect_part(refusal([&] { Checkpoint checkpoint(folder); }), file.string());
    std::filesystem::remove(file);
    const std::string message = refusal([&] { Checkpoint checkpoint(folder); });
    expect_part(message, name == kManifestName ? folder.string() : file.string());
    std::filesystem::rename(aside, file);
  }
  EXPECT_NO_THROW(Checkpoint{folder});
  expect_part(
      refusal([&] { Checkpoint checkpoint(root.path() / "no"); }), "no such folder");
}

TEST(Checkpoint, AHeaderOfTheRightSizeButDamagedIsNamedToo) {
  const ScratchFolder root;
  save(root.path(), 7);
  const auto file = root.path() / "step-7" / "model-00002-of-00002.safetensors";
  std::fstream(file, std::ios::in | std::ios::out).seekp(12).write("xxxx", 4);
  const Checkpoint checkpoint(root.path() / "step-7");
  expect_part(refusal([&] { checkpoint.weights(); }), file.string());
}

TEST(Checkpoint, TheLatestIsTheHighestAndNotSkippedWhenDamaged) {
  const ScratchFolder root;
  EXPECT_FALSE(latest_checkpoint(root.path()));
  EXPECT_FALSE(latest_checkpoint(root.path() / "none"));
  for (const int64_t step : {9, 10})
    save(root.path(), step, 1);
  EXPECT_EQ(latest_checkpoint(root.path()), root.path() / "step-10");
  EXPECT_EQ(checkpoint_steps(root.path()), (std::vector<int64_t>{9, 10}));
  const auto model = root.path() / "step-10" / "model.safetensors";
  std::filesystem::resize_file(model, 3);
  EXPECT_EQ(latest_checkpoint(root.path()), root.path() / "step-10");
  const std::string message =
      refusal([&] { Checkpoint checkpoint(*latest_checkpoint(root.path())); });
  expect_part(message, model.string());
  expect_part(message, "remove its folder to go on from an older one");
}

}  // namespace
}  // namespace trireme::ckpt
