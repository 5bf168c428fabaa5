// Which layout suits a machine: all that are possible by estimate, the best of them by
// trying. Pure: layout_trial.h is what tries one.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/model/model_plan.h"
#include "trireme/train/config.h"
#include "trireme/train/layout.h"

namespace trireme::train {

/// What there is to share out.
struct LayoutRoom {
  /// Ranks that there are already, or that the config asks for; 0: up to one a core.
  int ranks = 0;
  int cores = 1;
  /// Threads of a rank; 0: its share of the cores.
  int threads = 0;
  /// Of the host; 0: unknown.
  double memory_bytes = 0;
};

/// One way to share a job out.
struct LayoutCandidate {
  Degrees degrees;
  /// Of a rank, within an operation.
  int threads = 1;
  /// What a step takes by estimate; only how candidates compare matters.
  double seconds = 0;
  /// Whether all ranks have room in the memory, by estimate.
  bool fits = true;
};

/// For people: "2 ranks (2 data parallel x 1 pipeline) of 1 thread".
std::string to_text(const LayoutCandidate& candidate);

/// All layouts that the config, the model and the batch allow, the best by estimate
/// first. A config that names a schedule means a pipeline, where one is possible.
/// InvalidArgument, with the keys to change, if there is no layout at all.
std::vector<LayoutCandidate> list_layouts(
    const Config& config, const model::ModelPlan& plan, const LayoutRoom& room);

/// The best by estimate for a world of `ranks`.
Degrees choose_degrees(const Config& config, const model::ModelPlan& plan, int ranks);

/// What a trial has shown: the time of a step, and how long it took to find out.
struct LayoutTrial {
  double step_s = 0;
  double took_s = 0;
};

/// Tries a layout; nothing if it cannot run.
using TryLayout = std::function<std::optional<LayoutTrial>(const LayoutCandidate&)>;

/// A layout, and why it.
struct LayoutChoice {
  LayoutCandidate layout;
  /// For people: what was compared. Empty if there was nothing to choose.
  std::string why;
};

/// Tries the best of a list, as long as that takes a small part of a job of `steps`,
/// and takes the fastest. In a job of few steps, the first of the list.
LayoutChoice choose_layout(
    const std::vector<LayoutCandidate>& candidates,
    int64_t steps,
    const TryLayout& try_layout);

}  // namespace trireme::train
