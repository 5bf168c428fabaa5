// What the stages of a pipeline could split into I and W, and what not.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trireme/comm/group.h"

namespace trireme::pipe {

class Runtime;

/// The nodes of a stage that lead both to inputs and to weights, in one step, with the
/// names of those that were not split. All 0 under a schedule without I and W.
struct StageSplits {
  int stage = 0;
  /// I has computed one half, W the other.
  int64_t split = 0;
  /// I has done all of it: norms, nodes with hooks, TorchScript, what
  /// autograd::run_whole() has marked.
  std::map<std::string, int64_t> whole{};
  /// Called in I and in W, whole both times unless they look at what is asked of them:
  /// functions that users write. autograd::split_function() gives them halves.
  std::map<std::string, int64_t> twice{};

  int64_t total() const;
  bool operator==(const StageSplits&) const = default;
};

/// Those of this rank's stages, in the last step.
std::vector<StageSplits> own_splits(const Runtime& runtime);
/// Those of all stages, in order. Collective.
std::vector<StageSplits> gather_splits(
    const comm::Group& group, const std::vector<StageSplits>& mine);

/// "stage 1: 12 nodes split, 4 whole (NativeLayerNormBackward0), 0 twice".
std::string to_text(const StageSplits& splits);

}  // namespace trireme::pipe
