// Cuts the layers of a model into stages.
#pragma once
#include <vector>

#include "trireme/sched/schedule.h"

namespace trireme::sched {

/// A run of layers: [first, last).
struct LayerRange {
  int first = 0;
  int last = 0;
  bool operator==(const LayerRange&) const = default;
};

/// Cuts layers with these costs into as many stages as `rank_of_stage` has, none empty.
/// The cut is exact: where stages lie there and back (two a rank), no rank could have
/// less than the one that has most; otherwise no stage could. `speeds` are the ranks'
/// (2: twice as fast); empty: all alike. InvalidArgument if there are fewer layers than
/// stages, or a number is out of range.
///
///     partition({1, 1, 1, 3}, {0, 1});   // layers 0 to 2, and layer 3
std::vector<LayerRange> partition(
    const std::vector<double>& costs,
    const std::vector<int>& rank_of_stage,
    const std::vector<double>& speeds = {});

/// The time of the rank, or of the stage, that has most: what partition() makes small.
double bottleneck(
    const std::vector<LayerRange>& ranges,
    const std::vector<double>& costs,
    const std::vector<int>& rank_of_stage,
    const std::vector<double>& speeds = {});

}  // namespace trireme::sched
