#include "trireme/model/shared_parameters.h"

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/model/initial_values.h"

namespace trireme::model {

SharedParameters::SharedParameters(const std::vector<std::vector<std::string>>& tied) {
  for (const auto& names : tied)
    for (const std::string& name : names)
      if (!first_.emplace(name, names.front()).second)
        throw InvalidArgument(text(
            "[model] expected each name among the tied parameters once, got ",
            in_quotes(name),
            " twice; name all that is one parameter in one list"));
}

const std::string& SharedParameters::first_name(const std::string& name) const {
  const auto found = first_.find(name);
  return found == first_.end() ? name : found->second;
}

at::Tensor SharedParameters::make(
    const ParameterPlan& plan, const BuildOptions& options) {
  const std::string& first = first_name(plan.name);
  if (const auto found = made_.find(first); found != made_.end()) {
    if (found->second.sizes() != at::IntArrayRef(plan.sizes) ||
        found->second.scalar_type() != options.dtype)
      throw InvalidArgument(text(
          "[model] expected tied parameters of one shape and dtype, got ",
          in_quotes(plan.name),
          " of ",
          at::IntArrayRef(plan.sizes),
          " and ",
          in_quotes(first),
          " of ",
          found->second.sizes(),
          "; make them alike, or untie them"));
    return found->second;
  }
  const at::Tensor made = make_value(plan, first, options);
  if (first_.contains(plan.name))
    made_.emplace(first, made);
  return made;
}

}  // namespace trireme::model
