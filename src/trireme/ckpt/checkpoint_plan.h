// Which rank writes which tensor into which file. Pure: no tensor data, no file.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/ckpt/safetensors_header.h"
#include "trireme/ckpt/weight_files.h"

namespace trireme::ckpt {

/// The two families of files of a checkpoint, by their stems.
inline constexpr const char* kWeightStem = "model";
inline constexpr const char* kOptimizerStem = "optimizer";

/// A stage as one rank brings it, without the data.
struct StageOutline {
  int stage = 0;
  std::vector<TensorEntry> weights;
  std::vector<TensorEntry> optimizer;
};

/// All that one rank brings; the ranks send these to one another as text.
struct RankOutline {
  int64_t step = 0;
  int stages = 1;
  std::vector<StageOutline> parts;
};
std::string write_outline(const RankOutline& outline);
RankOutline parse_outline(std::string_view json);

/// The files of one family. A name that several stages bring (a tied parameter) belongs
/// to the first of them.
struct FamilyPlan {
  std::string stem;
  /// By stage; none if no stage has a tensor of this family.
  std::vector<std::string> files;
  WeightIndex index;

  /// Whether `stage` is the one that writes `name`.
  bool writes(int stage, const std::string& name) const;
  /// Several files have an index beside them; one has none, as transformers does it.
  bool has_index() const { return files.size() > 1; }
};

struct CheckpointPlan {
  FamilyPlan weights;
  FamilyPlan optimizer;
};

/// The plan follows from the outlines of all ranks alone, so that all ranks make the
/// same. InvalidArgument if they do not go together: another step or number of stages,
/// a stage that comes twice or never, a tied parameter with two shapes.
CheckpointPlan plan_checkpoint(const std::vector<RankOutline>& ranks);

}  // namespace trireme::ckpt
