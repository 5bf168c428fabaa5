// Costs as a file: what a run has measured, for simulate and plan.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "trireme/sched/costs.h"

namespace trireme::sched {

/// One layer of a model, for partitioning: as if it were a stage of its own.
struct LayerCosts {
  std::string name;
  StageCosts costs;
};

/// What such a file holds; docs/schedules.md has its schema.
struct CostFile {
  /// Without stages, if the file has layers alone: see stage_costs() in plan.h.
  Costs costs;
  std::vector<LayerCosts> layers;
};

/// Reads {"version": 1, "stages": […], "links": […], "layers": […]}. What a stage
/// leaves out of backward is input_grad + weight_grad. InvalidArgument names the field:
/// another version, a missing time, a field that is unknown, a number that is none.
CostFile parse_costs(std::string_view json, const std::string& name);

/// The file; numbers come back exactly.
std::string to_json(const CostFile& file);

}  // namespace trireme::sched
