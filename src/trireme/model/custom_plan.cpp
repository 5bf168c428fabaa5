#include "trireme/model/custom_plan.h"

#include <cmath>
#include <set>

#include <c10/core/GradMode.h>

#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/model/initial_values.h"
#include "trireme/model/planned_module.h"
#include "trireme/model/shared_parameters.h"

namespace trireme::model {
namespace {

pipe::Layer make_layer(const CustomLayer& custom, const BuildOptions& options) {
  pipe::Layer layer = custom.make(options);
  layer.name = custom.name;
  if (!layer.forward)
    throw InvalidArgument(text(
        "[model] expected a layer with a function from the maker of ",
        in_quotes(custom.name),
        ", got none; return one with .forward"));
  return layer;
}

// Puts the plan's own values into what the module has made.
void fill(
    const pipe::Layer& layer,
    const Initialiser& initialise,
    const BuildOptions& options,
    const SharedParameters& shared) {
  const c10::AutoGradMode no_grad(false);
  for (const auto& [name, parameter] : pipe::parameters({layer})) {
    at::Tensor value = parameter.detach();
    if (!options.initialise)
      value.zero_();
    else
      initialise(name, value, generator_of(options.seed, shared.first_name(name)));
    parameter.set_data(value.to(options.dtype));
  }
}

LayerPlan plan_layer(const CustomLayer& custom, const Initialiser& initialise) {
  if (custom.name.empty() || !custom.make)
    throw InvalidArgument(text(
        "[model] expected a name and a function for each layer, got ",
        in_quotes(custom.name),
        custom.make ? "" : " without a function",
        "; give both"));
  LayerPlan plan{.name = custom.name, .work = custom.work};
  plan.output_elements_per_token = custom.output_elements_per_token;
  for (const auto& [name, tensor] : pipe::parameters({make_layer(custom, {})}))
    plan.parameters.push_back({name, tensor.sizes().vec()});
  if (plan.work.flops == 0)
    plan.work.flops = 2 * static_cast<double>(plan.count_parameters());
  plan.build = [custom, initialise](
                   const BuildOptions& options, SharedParameters& shared) {
    pipe::Layer layer = make_layer(custom, options);
    fill(layer, initialise, options, shared);
    return options.checkpoint && custom.work.is_block ? checkpointed(std::move(layer))
                                                      : layer;
  };
  return plan;
}

void check_names(const ModelPlan& plan) {
  std::set<std::string> layers, parameters;
  for (const LayerPlan& layer : plan.layers) {
    if (!layers.insert(layer.name).second)
      throw InvalidArgument(text(
          "[model] expected layers with names of their own, got ",
          in_quotes(layer.name),
          " twice; rename one"));
    for (const ParameterPlan& each : layer.parameters)
      parameters.insert(each.name);
  }
  for (const auto& names : plan.tied)
    for (const std::string& name : names)
      if (!parameters.contains(name))
        throw InvalidArgument(text(
            "[model] expected tied parameters that layers have, got ",
            in_quotes(name),
            "; correct the name"));
}

}  // namespace

void initialise_by_shape(
    const std::string& name, at::Tensor& value, const at::Generator& random) {
  if (value.dim() >= 2) {
    const auto row = static_cast<double>(value.numel()) /
                     static_cast<double>(std::max<int64_t>(1, value.size(0)));
    value.normal_(0, 1 / std::sqrt(std::max(1.0, row)), random);
  } else if (name.ends_with("bias")) {
    value.zero_();
  }
}

ModelPlan plan_of_layers(const CustomModel& model) {
  if (model.layers.empty())
    throw InvalidArgument("[model] expected at least one layer, got none; add one");
  if (!model.initialise)
    throw InvalidArgument(
        "[model] expected a function for first values, got none; give one");
  ModelPlan plan{
      .type = model.type,
      .config_json = model.config_json,
      .vocab_size = model.vocab_size,
      .max_positions = model.max_positions,
      .tied = model.tied,
      .shares_tied = false,
      .may_overlap = model.may_overlap};
  for (const CustomLayer& each : model.layers)
    plan.layers.push_back(plan_layer(each, model.initialise));
  check_names(plan);
  return plan;
}

}  // namespace trireme::model
