// Finds the builder of a model by the model_type of its config.json.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "trireme/model/model_plan.h"

namespace trireme::model {

/// Makes a plan from the text of config.json.
using Planner = std::function<ModelPlan(const std::string& config_json)>;

/// The plan of a model: "gpt2", "llama", or one that was registered. Its config_json
/// keeps all keys of the text, so that what is saved is what was read. InvalidArgument
/// or NotSupported names the key that is wrong.
///
///     const ModelPlan plan = plan_model(R"({"model_type": "gpt2", "n_layer": 4})");
ModelPlan plan_model(const std::string& config_json);

/// Makes a type known to plan_model(), in the whole process: call it before ranks
/// start. InvalidArgument if there is one of that name, or no planner.
void register_model(const std::string& type, Planner planner);

/// The types that are known, in alphabetical order.
std::vector<std::string> model_types();

/// A config.json for weights that are saved in this dtype.
std::string config_for_saving(const ModelPlan& plan, at::ScalarType dtype);

}  // namespace trireme::model
