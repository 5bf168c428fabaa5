// Models of one's own: a list of layers becomes a plan like the others.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "trireme/model/model_plan.h"

namespace trireme::model {

/// One layer of a model of one's own.
struct CustomLayer {
  /// In front of the names of its parameters.
  std::string name;
  /// Makes the layer; the name that it gives itself does not count. Called once for the
  /// plan, and then on every rank that needs it. The options' dtype, seed and
  /// checkpoint are taken care of; dropout is not.
  std::function<pipe::Layer(const BuildOptions&)> make;
  /// If `work.flops` is 0: two for each parameter.
  LayerWork work{};
  double output_elements_per_token = 0;
};

/// Fills a parameter with its first values. `random` follows from the seed and the
/// name.
using Initialiser = std::function<void(
    const std::string& name, at::Tensor& value, const at::Generator& random)>;

/// The default: matrices and larger are normal with 1/√(numbers in a row), biases are
/// 0, and other vectors stay as the module has made them (1 in norms). What modules
/// draw by themselves comes from a generator that all ranks of a process share, and
/// would differ from layout to layout.
void initialise_by_shape(
    const std::string& name, at::Tensor& value, const at::Generator& random);

/// A model of one's own.
struct CustomModel {
  /// For messages and config.json.
  std::string type;
  std::string config_json;
  int64_t vocab_size = 0;
  int64_t max_positions = 0;
  std::vector<CustomLayer> layers;
  /// As ModelPlan::tied. Each place has a tensor of its own; the pipeline keeps them
  /// equal.
  std::vector<std::vector<std::string>> tied{};
  Initialiser initialise = initialise_by_shape;
  /// As ModelPlan::may_overlap: say so if no layer talks to other ranks.
  bool may_overlap = false;
};

/// The plan. Makes each layer once, one after the other, to see its parameters.
/// InvalidArgument for a layer without a name or a function, a name that comes twice,
/// and a tied name that no layer has.
///
///     register_model("mlp", [](const std::string& config) {
///       return plan_of_layers({.type = "mlp", .config_json = config, .layers = {
///         {"in", [](auto&) { return pipe::layer("", torch::nn::Linear(8, 64)); }},
///         {"out", [](auto&) { return pipe::layer("", torch::nn::Linear(64, 8)); }}}});
///     });
ModelPlan plan_of_layers(const CustomModel& model);

}  // namespace trireme::model
