#include "trireme/dp/parameter.h"

#include <algorithm>
#include <set>

#include "trireme/core/error.h"
#include "trireme/core/list_names.h"

namespace trireme::dp {

std::vector<Parameter> trained_parameters(
    const std::vector<Parameter>& all, const std::vector<std::string>& ignore) {
  std::set<std::string> unknown(ignore.begin(), ignore.end());
  std::set<const void*> seen;
  std::vector<Parameter> kept;
  for (const Parameter& parameter : all) {
    const bool ignored =
        std::find(ignore.begin(), ignore.end(), parameter.name) != ignore.end();
    unknown.erase(parameter.name);
    if (!parameter.tensor.defined())
      throw InvalidArgument(text(
          "[dp] expected parameters with values, got ",
          parameter.name,
          " without; run the model once, or give it its sizes, before it is wrapped"));
    if (ignored || !parameter.tensor.requires_grad() ||
        !seen.insert(parameter.tensor.unsafeGetTensorImpl()).second)
      continue;
    kept.push_back(parameter);
  }
  if (!unknown.empty())
    throw InvalidArgument(text(
        "[dp] expected names of parameters to leave out, got ",
        list_names({unknown.begin(), unknown.end()}),
        ", which the model does not have; correct the list"));
  if (kept.empty())
    throw InvalidArgument(
        "[dp] expected a model with at least one parameter that needs a gradient, got "
        "none; use the module itself where nothing is trained");
  return kept;
}

void check_parameters(const std::vector<Parameter>& parameters) {
  for (const auto& [name, tensor, sparse] : parameters) {
    if (!tensor.device().is_cpu())
      throw InvalidArgument(text(
          "[dp] expected all parameters on the CPU, got ",
          name,
          " on ",
          tensor.device().str(),
          "; move the model before it is wrapped"));
    if (!tensor.is_leaf())
      throw InvalidArgument(text(
          "[dp] expected parameters that are leaves, got ",
          name,
          ", which was computed from others; register the tensors that it comes from"));
    if (!c10::isFloatingType(tensor.scalar_type()) &&
        !c10::isComplexType(tensor.scalar_type()))
      throw InvalidArgument(text(
          "[dp] expected parameters of floating or complex dtypes, got ",
          name,
          " of ",
          c10::toString(tensor.scalar_type()),
          "; make it a buffer"));
  }
}

void check_still_frozen(
    const std::vector<Parameter>& frozen, const char* since, const char* remedy) {
  std::vector<std::string> thawed;
  for (const Parameter& parameter : frozen)
    if (parameter.tensor.requires_grad())
      thawed.push_back(parameter.name);
  if (!thawed.empty())
    throw InvalidArgument(text(
        "[dp] expected parameters that were frozen ",
        since,
        " to stay so, got ",
        list_names(thawed),
        " that need a gradient now, which nobody would reduce; let them need one "
        "first, then ",
        remedy));
}

}  // namespace trireme::dp
