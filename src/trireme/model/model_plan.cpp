#include "trireme/model/model_plan.h"

#include <algorithm>
#include <set>

#include <c10/core/ScalarType.h>

namespace trireme::model {

int64_t ParameterPlan::numel() const {
  int64_t count = 1;
  for (const int64_t size : sizes)
    count *= size;
  return count;
}

int64_t LayerPlan::count_parameters() const {
  int64_t count = 0;
  for (const ParameterPlan& each : parameters)
    count += each.numel();
  return count;
}

double LayerPlan::forward_flops_per_token(int64_t sequence) const {
  return work.flops + work.flops_per_position * static_cast<double>(sequence);
}

double LayerPlan::kept_bytes_per_token(
    int64_t sequence, const BuildOptions& options) const {
  const auto size = static_cast<double>(c10::elementSize(options.dtype));
  if (options.checkpoint && work.is_block)
    return work.input * size;
  const bool drops = options.dropout.value_or(work.dropout) > 0;
  const double more = drops ? work.kept_per_position : 0;
  return (work.kept + more * static_cast<double>(sequence)) * size +
         work.kept_float32 * static_cast<double>(sizeof(float));
}

int64_t ModelPlan::count_parameters() const {
  std::set<std::string> seconds;
  for (const auto& names : tied)
    seconds.insert(
        names.begin() + std::min<ptrdiff_t>(1, std::ssize(names)), names.end());
  int64_t count = 0;
  for (const LayerPlan& layer : layers)
    for (const ParameterPlan& each : layer.parameters)
      count += seconds.contains(each.name) ? 0 : each.numel();
  return count;
}

}  // namespace trireme::model
