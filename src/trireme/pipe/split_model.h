// Cuts a list of layers into stages.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/pipe/layers.h"
#include "trireme/pipe/tied.h"
#include "trireme/sched/cost_file.h"
#include "trireme/sched/partition.h"

namespace trireme::pipe {

/// A cut before or after a layer.
///
///     split_at(model, {{"block4"}, {"block7", SplitPoint::Where::End}});  // 3 stages
struct SplitPoint {
  enum class Where : uint8_t { Beginning, End };
  std::string layer;
  Where where = Where::Beginning;
};

/// What is allowed in a cut.
struct SplitOptions {
  /// A parameter may lie in several stages. Pass find_tied() of the stages to the
  /// pipeline then: otherwise its copies would be trained apart. Without it this is
  /// refused. (Buffers may always be in several stages: masks and tables often are.)
  bool allow_tied = false;
};

// All give the layers of each stage, in order; none is empty. InvalidArgument if that
// cannot be, if check_layers() refuses the list, or if a parameter would lie in two
// stages.

/// Cuts at these points, in any order. No two may be the same place.
std::vector<LayerList> split_at(
    const LayerList& layers,
    const std::vector<SplitPoint>& points,
    const SplitOptions& options = {});

/// Cuts so that the stage with most parameters has as few as possible.
std::vector<LayerList> split_by_parameters(
    const LayerList& layers, int stages, const SplitOptions& options = {});
/// The same for stages that lie there and back, two a rank: the rank with most has as
/// few as possible. See sched::map_stages().
std::vector<LayerList> split_by_parameters(
    const LayerList& layers,
    const std::vector<int>& rank_of_stage,
    const SplitOptions& options = {});

/// The same by time, forward and backward; `costs` are the layers', in order, from
/// measure_layers() or a cost file.
///
///     const auto costs = measure_layers(model, {tokens});
///     const auto stages = split_by_costs(model, costs, {0, 1, 1, 0});
std::vector<LayerList> split_by_costs(
    const LayerList& layers,
    const std::vector<sched::LayerCosts>& costs,
    const std::vector<int>& rank_of_stage,
    const SplitOptions& options = {});

/// Cuts as told: [0, 3), [3, 4) and so on up to the last layer.
std::vector<LayerList> split_ranges(
    const LayerList& layers,
    const std::vector<sched::LayerRange>& ranges,
    const SplitOptions& options = {});

/// The parameters that lie in several of these stages, for the pipeline.
std::vector<Tied> find_tied(const std::vector<LayerList>& stages);

}  // namespace trireme::pipe
