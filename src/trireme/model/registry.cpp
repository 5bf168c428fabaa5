#include "trireme/model/registry.h"

#include <map>
#include <mutex>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/list_names.h"
#include "trireme/model/config_object.h"
#include "trireme/model/gpt2.h"
#include "trireme/model/llama.h"

namespace trireme::model {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, Planner> planners{
      {"gpt2",
       [](const std::string& json) { return plan_gpt2(parse_gpt2_config(json)); }},
      {"llama",
       [](const std::string& json) { return plan_llama(parse_llama_config(json)); }}};
};

Registry& registry() {
  static Registry one;
  return one;
}

std::string dtype_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::ScalarType::Float:
      return "\"float32\"";
    case at::ScalarType::BFloat16:
      return "\"bfloat16\"";
    case at::ScalarType::Half:
      return "\"float16\"";
    case at::ScalarType::Double:
      return "\"float64\"";
    default:
      throw InvalidArgument(text(
          "[model] expected weights in float32, bfloat16, float16 or float64, got ",
          dtype,
          "; convert them"));
  }
}

}  // namespace

ModelPlan plan_model(const std::string& config_json) {
  const ConfigObject config = ConfigObject::parse(config_json);
  const std::string type = config.word("model_type", "");
  Planner planner;
  {
    const std::lock_guard lock(registry().mutex);
    if (const auto found = registry().planners.find(type);
        found != registry().planners.end())
      planner = found->second;
  }
  if (type.empty())
    config.refuse("model_type", text("one of ", list_names(model_types())));
  if (!planner)
    config.not_supported(
        "model_type",
        text(
            "there are ", list_names(model_types()), "; register_model() adds others"));
  ModelPlan plan = planner(config_json);
  // Of the config that was made from it, what the text leaves out; and the class, since
  // a model that was read without its head has one now.
  const ConfigObject made =
      ConfigObject::parse(plan.config_json.empty() ? "{}" : plan.config_json);
  ConfigObject both = config.with_missing(made);
  if (made.has("architectures"))
    both = both.with("architectures", made.json_of("architectures"));
  plan.config_json = both.dump();
  return plan;
}

void register_model(const std::string& type, Planner planner) {
  if (type.empty() || !planner)
    throw InvalidArgument(
        "[model] expected a type and a planner to register, got none; give both");
  const std::lock_guard lock(registry().mutex);
  if (!registry().planners.emplace(type, std::move(planner)).second)
    throw InvalidArgument(text(
        "[model] expected a new type of model, got ",
        in_quotes(type),
        ", which is known; take another name"));
}

std::vector<std::string> model_types() {
  const std::lock_guard lock(registry().mutex);
  std::vector<std::string> types;
  for (const auto& [type, planner] : registry().planners)
    types.push_back(type);
  return types;
}

std::string config_for_saving(const ModelPlan& plan, at::ScalarType dtype) {
  // transformers 5 reads "dtype", those before it "torch_dtype".
  return ConfigObject::parse(plan.config_json)
      .with("dtype", dtype_name(dtype))
      .with("torch_dtype", dtype_name(dtype))
      .dump();
}

}  // namespace trireme::model
