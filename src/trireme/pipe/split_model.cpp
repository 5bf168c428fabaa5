#include "trireme/pipe/split_model.h"

#include <map>
#include <numeric>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/core/list_names.h"

namespace trireme::pipe {
namespace {

using sched::LayerRange;

std::string to_text(const SplitPoint& point) {
  const bool beginning = point.where == SplitPoint::Where::Beginning;
  return text("the ", beginning ? "beginning" : "end", " of \"", point.layer, "\"");
}

int number_of(const LayerList& layers, const SplitPoint& point) {
  std::vector<std::string> names;
  for (const Layer& each : layers) {
    if (each.name == point.layer)
      return static_cast<int>(names.size());
    names.push_back(each.name);
  }
  throw InvalidArgument(text(
      "[pipe] expected a split point at a layer of the list, got ",
      to_text(point),
      "; the layers are ",
      list_names(names)));
}

// The layer before which the cut is.
int place_of(const LayerList& layers, const SplitPoint& point) {
  const int place =
      number_of(layers, point) + (point.where == SplitPoint::Where::End ? 1 : 0);
  if (place == 0 || place == static_cast<int>(layers.size()))
    throw InvalidArgument(text(
        "[pipe] expected split points with layers on both sides, got ",
        to_text(point),
        ", which leaves an empty stage; remove it"));
  return place;
}

void check_stage_count(const LayerList& layers, int64_t stages) {
  if (stages < 1 || stages > static_cast<int64_t>(layers.size()))
    throw InvalidArgument(text(
        "[pipe] expected between 1 and ",
        layers.size(),
        " stages, one for each layer at most, got ",
        stages,
        stages < 1 ? "" : "; take fewer stages, or cut the model into more layers"));
}

void check_ranges(const LayerList& layers, const std::vector<LayerRange>& ranges) {
  int at = 0;
  for (size_t stage = 0; stage < ranges.size(); ++stage) {
    const LayerRange& range = ranges[stage];
    if (range.first != at || range.last <= at)
      throw InvalidArgument(text(
          "[pipe] expected ranges that follow one another, none empty, got [",
          range.first,
          ", ",
          range.last,
          ") for stage ",
          stage,
          ", which must begin at ",
          at,
          "; correct that range"));
    at = range.last;
  }
  if (at != static_cast<int>(layers.size()))
    throw InvalidArgument(text(
        "[pipe] expected ranges of all ",
        layers.size(),
        " layers, got those up to ",
        at,
        "; add the rest"));
}

// A tensor in two stages would be trained as two, and silently so.
void check_apart(const std::vector<LayerList>& stages) {
  const auto tied = find_tied(stages);
  if (tied.empty())
    return;
  const TiedParameter &first = tied[0].places[0], &second = tied[0].places[1];
  throw InvalidArgument(text(
      "[pipe] expected each parameter in one stage, got \"",
      second.name,
      "\" of stage ",
      second.stage,
      ", which is \"",
      first.name,
      "\" of stage ",
      first.stage,
      "; cut elsewhere, or allow it (SplitOptions::allow_tied) and declare it to the "
      "pipeline as tied: ",
      to_text(tied[0])));
}

std::vector<LayerList> balance(
    const LayerList& layers,
    const std::vector<double>& costs,
    const std::vector<int>& rank_of_stage,
    const SplitOptions& options) {
  check_layers(layers);
  check_stage_count(layers, static_cast<int64_t>(rank_of_stage.size()));
  return split_ranges(layers, sched::partition(costs, rank_of_stage), options);
}

}  // namespace

std::vector<LayerList> split_at(
    const LayerList& layers,
    const std::vector<SplitPoint>& points,
    const SplitOptions& options) {
  check_layers(layers);
  std::map<int, SplitPoint> places;
  for (const SplitPoint& point : points) {
    const auto [at, is_new] = places.emplace(place_of(layers, point), point);
    if (!is_new)
      throw InvalidArgument(text(
          "[pipe] expected each split point once, got ",
          to_text(at->second),
          " and ",
          to_text(point),
          ", which are one place; remove one"));
  }
  std::vector<LayerRange> ranges{{0, static_cast<int>(layers.size())}};
  for (const auto& [place, point] : places) {
    const int last = std::exchange(ranges.back().last, place);
    ranges.push_back({place, last});
  }
  return split_ranges(layers, ranges, options);
}

std::vector<LayerList> split_by_parameters(
    const LayerList& layers, int stages, const SplitOptions& options) {
  check_layers(layers);
  check_stage_count(layers, stages);
  std::vector<int> rank_of_stage(static_cast<size_t>(stages));
  std::iota(rank_of_stage.begin(), rank_of_stage.end(), 0);
  return split_by_parameters(layers, rank_of_stage, options);
}

std::vector<LayerList> split_by_parameters(
    const LayerList& layers,
    const std::vector<int>& rank_of_stage,
    const SplitOptions& options) {
  std::vector<double> costs;
  for (const Layer& each : layers)
    costs.push_back(static_cast<double>(count_parameters(each)));
  return balance(layers, costs, rank_of_stage, options);
}

std::vector<LayerList> split_by_costs(
    const LayerList& layers,
    const std::vector<sched::LayerCosts>& costs,
    const std::vector<int>& rank_of_stage,
    const SplitOptions& options) {
  if (costs.size() != layers.size())
    throw InvalidArgument(text(
        "[pipe] expected costs of ",
        layers.size(),
        " layers, got ",
        costs.size(),
        "; measure this list (measure_layers)"));
  std::vector<double> times;
  for (size_t i = 0; i < layers.size(); ++i) {
    // A file may leave names out.
    if (!costs[i].name.empty() && costs[i].name != layers[i].name)
      throw InvalidArgument(text(
          "[pipe] expected costs of layer ",
          i,
          ", \"",
          layers[i].name,
          "\", got those of \"",
          costs[i].name,
          "\"; measure this list (measure_layers)"));
    times.push_back(costs[i].costs.time());
  }
  return balance(layers, times, rank_of_stage, options);
}

std::vector<LayerList> split_ranges(
    const LayerList& layers,
    const std::vector<LayerRange>& ranges,
    const SplitOptions& options) {
  check_layers(layers);
  check_skips(layers);
  check_ranges(layers, ranges);
  std::vector<LayerList> stages;
  for (const LayerRange& range : ranges)
    stages.emplace_back(layers.begin() + range.first, layers.begin() + range.last);
  if (!options.allow_tied)
    check_apart(stages);
  return stages;
}

std::vector<Tied> find_tied(const std::vector<LayerList>& stages) {
  std::vector<NamedTensors> all;
  for (const LayerList& stage : stages)
    all.push_back(parameters(stage));
  return find_tied(all);
}

}  // namespace trireme::pipe
