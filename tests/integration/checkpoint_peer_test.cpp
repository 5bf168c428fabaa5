// Files of ours are read by safetensors and transformers, and theirs by us:
// tests/peer/safetensors_files.py is the other side.
#include <string>

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "trireme/ckpt/checkpoint.h"
#include "trireme/comm/init.h"
#include "trireme/core/error.h"
#include "trireme/testing/peer.h"
#include "trireme/testing/scratch_folder.h"

namespace trireme::ckpt {
namespace {

namespace fs = std::filesystem;

// All that their file holds goes into ours.
void write_ours(const fs::path& from, const fs::path& to) {
  const SafetensorsFile theirs(from);
  NamedTensors tensors;
  for (const TensorEntry& tensor : theirs.header().tensors)
    tensors.emplace_back(tensor.name, theirs.read(tensor.name));
  EXPECT_EQ(tensors.size(), 48U);
  const at::Tensor numbers = at::arange(15, at::kFloat).reshape({3, 5}).sub(4).abs();
  for (const char* name : {"float32", "bfloat16", "int8", "uint64"})
    EXPECT_TRUE(theirs.view(name).to(at::kFloat).equal(numbers)) << name;
  EXPECT_EQ(theirs.header().metadata.at("word"), "\u00fc \"x\"");
  write_safetensors(to, tensors, theirs.header().metadata);
}

// Every rank writes some of the layers, and all of them the embedding, as if it were
// tied.
CheckpointContent share_of(const WeightFiles& model, int rank, int ranks) {
  StagePart part{.stage = rank};
  for (const std::string& name : model.names()) {
    const bool tied = name == "transformer.wte.weight";
    if (tied || std::hash<std::string>()(name) % static_cast<size_t>(ranks) ==
                    static_cast<size_t>(rank)) {
      part.weights.emplace_back(name, model.read(name));
      part.optimizer.emplace_back(name + ".exp_avg", model.read(name));
    }
  }
  const std::string config = read_file(model.folder() / "config.json", 1 << 20);
  return {
      .stages = ranks,
      .parts = {std::move(part)},
      .texts = {{"config.json", config}, {"trainer.json", "{}"}}};
}

TEST(CheckpointPeer, FilesMoveBothWays) {
  const std::string missing = testing::peer_missing({"safetensors", "transformers"});
  if (!missing.empty())
    GTEST_SKIP() << missing;
  const testing::ScratchFolder folder;
  testing::run_peer({SAFETENSORS_FILES, "make", folder.path().string()});
  ASSERT_FALSE(HasFailure());
  write_ours(folder.path() / "theirs.safetensors", folder.path() / "ours.safetensors");
  const WeightFiles model(folder.path() / "hf");
  for (const int ranks : {1, 2})
    comm::run_local(ranks, [&](const comm::Group& world) {
      save_checkpoint(
          world, folder.path(), ranks, share_of(model, world.rank(), ranks));
    });
  testing::run_peer({SAFETENSORS_FILES, "check", folder.path().string()});
}

}  // namespace
}  // namespace trireme::ckpt
