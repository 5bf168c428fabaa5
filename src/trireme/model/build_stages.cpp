#include "trireme/model/build_stages.h"

#include <algorithm>
#include <map>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/model/shared_parameters.h"

namespace trireme::model {
namespace {

using sched::LayerRange;

void check_ranges(const ModelPlan& plan, std::vector<LayerRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) {
    return a.first < b.first;
  });
  int end = 0;
  for (const LayerRange& range : ranges) {
    if (range.first < end || range.last <= range.first ||
        range.last > std::ssize(plan.layers))
      throw InvalidArgument(text(
          "[model] expected ranges of the ",
          plan.layers.size(),
          " layers, none empty and none twice, got [",
          range.first,
          ", ",
          range.last,
          "); correct that range"));
    end = range.last;
  }
}

void check_options(const BuildOptions& options) {
  if (!c10::isFloatingType(options.dtype))
    throw InvalidArgument(text(
        "[model] expected a floating-point dtype for parameters, got ",
        options.dtype,
        "; take float32 or bfloat16"));
  if (options.dropout && !(*options.dropout >= 0 && *options.dropout < 1))
    throw InvalidArgument(text(
        "[model] expected a dropout in [0, 1), got ",
        *options.dropout,
        "; give a share below 1"));
}

// Where each parameter is, by name.
std::map<std::string, int> stages_of_names(
    const ModelPlan& plan, const std::vector<LayerRange>& ranges) {
  std::map<std::string, int> stages;
  for (size_t stage = 0; stage < ranges.size(); ++stage)
    for (int i = ranges[stage].first; i < ranges[stage].last; ++i)
      for (const ParameterPlan& each : plan.layers[static_cast<size_t>(i)].parameters)
        stages.emplace(each.name, static_cast<int>(stage));
  return stages;
}

}  // namespace

std::vector<pipe::LayerList> build_stages(
    const ModelPlan& plan,
    const std::vector<LayerRange>& ranges_of_my_stages,
    const BuildOptions& options) {
  check_ranges(plan, ranges_of_my_stages);
  check_options(options);
  SharedParameters shared(plan.tied);
  std::vector<pipe::LayerList> stages;
  for (const LayerRange& range : ranges_of_my_stages) {
    pipe::LayerList& stage = stages.emplace_back();
    for (int i = range.first; i < range.last; ++i)
      stage.push_back(plan.layers[static_cast<size_t>(i)].build(options, shared));
  }
  return stages;
}

pipe::LayerList build_layers(const ModelPlan& plan, const BuildOptions& options) {
  return build_stages(plan, {{0, static_cast<int>(plan.layers.size())}}, options)[0];
}

std::vector<pipe::Tied> tied_places(
    const ModelPlan& plan, const std::vector<LayerRange>& ranges_of_all_stages) {
  check_ranges(plan, ranges_of_all_stages);
  const auto stages = stages_of_names(plan, ranges_of_all_stages);
  std::vector<pipe::Tied> all;
  for (const auto& names : plan.tied) {
    pipe::Tied tied;
    for (const std::string& name : names) {
      const auto found = stages.find(name);
      if (found == stages.end())
        throw InvalidArgument(text(
            "[model] expected the stages of all layers, got none that has the tied ",
            in_quotes(name),
            "; give the ranges of all stages"));
      // One tensor has one name in a stage.
      const bool known =
          std::any_of(tied.places.begin(), tied.places.end(), [&](const auto& place) {
            return place.stage == found->second;
          });
      if (!known || !plan.shares_tied)
        tied.places.push_back({found->second, name});
    }
    if (tied.places.size() > 1)
      all.push_back(std::move(tied));
  }
  return all;
}

}  // namespace trireme::model
