#include "trireme/model/weights.h"

#include <algorithm>
#include <set>

#include <c10/core/GradMode.h>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/list_names.h"

namespace trireme::model {
namespace {

using ckpt::TensorEntry;
using ckpt::WeightFiles;

// All names of one parameter; itself if it is not tied.
std::vector<std::string> names_of(const ModelPlan& plan, const std::string& name) {
  for (const auto& tied : plan.tied)
    if (std::find(tied.begin(), tied.end(), name) != tied.end())
      return tied;
  return {name};
}

// As it may stand in a file: with the model's prefix, or without.
std::vector<std::string> spellings(const ModelPlan& plan, const std::string& name) {
  const std::string& prefix = plan.file_names.prefix;
  if (prefix.empty() || !name.starts_with(prefix))
    return {name};
  return {name, name.substr(prefix.size())};
}

std::string find_in(
    const WeightFiles& files, const ModelPlan& plan, const std::string& name) {
  for (const std::string& each : names_of(plan, name))
    for (const std::string& spelling : spellings(plan, each))
      if (files.has(spelling))
        return spelling;
  throw InvalidArgument(text(
      "[model] ",
      in_quotes(files.folder().string()),
      ": expected a tensor ",
      in_quotes(name),
      ", got none among the ",
      files.names().size(),
      " there; is config.json of another model, or \"tie_word_embeddings\" wrong?"));
}

void check_known(const WeightFiles& files, const ModelPlan& plan) {
  std::set<std::string> known;
  for (const LayerPlan& layer : plan.layers)
    for (const ParameterPlan& each : layer.parameters)
      for (const std::string& spelling : spellings(plan, each.name))
        known.insert(spelling);
  const auto& ends = plan.file_names.ignored_ends;
  std::vector<std::string> unknown;
  for (const std::string& name : files.names())
    if (!known.contains(name) &&
        std::none_of(ends.begin(), ends.end(), [&](const std::string& end) {
          return name.ends_with(end);
        }))
      unknown.push_back(escaped(name));
  if (!unknown.empty())
    throw InvalidArgument(text(
        "[model] ",
        in_quotes(files.folder().string()),
        ": expected tensors of a model of type ",
        in_quotes(plan.type),
        " with ",
        plan.layers.size(),
        " layers, got others: ",
        list_names(unknown),
        "; is config.json of another model?"));
}

bool is_weight_dtype(at::ScalarType dtype) {
  return dtype == at::ScalarType::Float || dtype == at::ScalarType::BFloat16 ||
         dtype == at::ScalarType::Half || dtype == at::ScalarType::Double;
}

void check_entry(
    const WeightFiles& files, const TensorEntry& entry, const at::Tensor& parameter) {
  if (parameter.sizes() != at::IntArrayRef(entry.sizes))
    throw InvalidArgument(text(
        "[model] ",
        in_quotes(files.folder().string()),
        ": expected ",
        in_quotes(entry.name),
        " of sizes ",
        parameter.sizes(),
        ", got ",
        at::IntArrayRef(entry.sizes),
        "; is config.json of another model?"));
  if (!is_weight_dtype(entry.dtype))
    throw InvalidArgument(text(
        "[model] ",
        in_quotes(files.folder().string()),
        ": expected ",
        in_quotes(entry.name),
        " in float32, bfloat16, float16 or float64, got ",
        entry.dtype,
        "; save the weights unquantized"));
}

}  // namespace

void load_weights(
    const std::vector<pipe::LayerList>& stages,
    const ModelPlan& plan,
    const WeightFiles& files) {
  check_known(files, plan);
  std::vector<std::pair<std::string, at::Tensor>> wanted;
  std::set<const void*> seen;
  for (const pipe::LayerList& stage : stages)
    for (const auto& [name, parameter] : pipe::parameters(stage))
      if (seen.insert(parameter.unsafeGetTensorImpl()).second)
        wanted.emplace_back(find_in(files, plan, name), parameter);
  for (const auto& [name, parameter] : wanted)
    check_entry(files, files.entry(name), parameter);
  const c10::AutoGradMode no_grad(false);
  for (const auto& [name, parameter] : wanted)
    parameter.copy_(files.read(name));
}

ckpt::NamedTensors weights_to_save(
    const pipe::LayerList& layers, const ModelPlan& plan) {
  ckpt::NamedTensors out;
  for (const auto& [name, parameter] : pipe::parameters(layers))
    if (names_of(plan, name).front() == name)
      out.emplace_back(name, parameter.detach());
  return out;
}

}  // namespace trireme::model
