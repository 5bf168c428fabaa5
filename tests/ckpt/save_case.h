// A small model to save: two stages with a tied parameter.
#pragma once
#include <set>

#include "helpers.h"
#include "trireme/ckpt/checkpoint.h"

namespace trireme::ckpt {

inline std::set<std::string> names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

/// A stage whose tensors are full of `value`; every stage brings "tied".
inline StagePart stage_part(int stage, double value, int64_t size = 10) {
  return {
      .stage = stage,
      .weights =
          {{"tied", at::full({size}, value + stage)},
           {text("layer.", stage, ".weight"), at::full({size, 2}, value)}},
      .optimizer = {
          {text("layer.", stage, ".weight.exp_avg"), at::full({size, 2}, value)}}};
}

/// What rank r of n brings of a model of `stages` stages: every n-th.
inline CheckpointContent content_of(
    int rank, int ranks, int stages, double value, int64_t size = 10) {
  CheckpointContent content{
      .stages = stages,
      .texts = {{"config.json", "{}"}, {"trainer.json", text(value)}}};
  for (int stage = rank; stage < stages; stage += ranks)
    content.parts.push_back(stage_part(stage, value, size));
  return content;
}

/// Every tensor of the checkpoint is what content_of() gave.
inline void expect_content(const Checkpoint& checkpoint, int stages, double value) {
  const WeightFiles weights = checkpoint.weights();
  const WeightFiles optimizer = checkpoint.optimizer();
  EXPECT_EQ(weights.names().size(), static_cast<size_t>(stages) + 1);
  EXPECT_TRUE(weights.read("tied").eq(value).all().item<bool>());
  for (int stage = 0; stage < stages; ++stage) {
    const std::string name = text("layer.", stage, ".weight");
    EXPECT_TRUE(weights.read(name).eq(value).all().item<bool>()) << name;
    EXPECT_TRUE(optimizer.read(name + ".exp_avg").eq(value).all().item<bool>());
  }
  EXPECT_EQ(checkpoint.text("trainer.json"), text(value));
}

}  // namespace trireme::ckpt
