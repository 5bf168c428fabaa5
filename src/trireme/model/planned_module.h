// A module that has the parameters of a layer's plan.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "trireme/model/model_plan.h"

namespace trireme::model {

/// Registers the parameters of a plan under their names: "attn.c_attn.weight" of layer
/// "transformer.h.0" is the weight of a child of a child. Layers derive from it and
/// take their tensors once, so that forward looks nothing up.
///
///     struct Head : PlannedModule {
///       Head(...) : PlannedModule(...), weight(parameter("weight")) {}
///       at::Tensor forward(const at::Tensor& x) { return at::linear(x, weight); }
///       at::Tensor weight;
///     };
class PlannedModule : public torch::nn::Module {
 public:
  /// What a layer is made of.
  struct Parts {
    std::string layer;
    std::vector<ParameterPlan> parameters;
  };
  PlannedModule(
      const Parts& parts, const BuildOptions& options, SharedParameters& shared);

 protected:
  /// By its name within the layer; undefined if the plan has none.
  at::Tensor parameter(const std::string& name) const;

 private:
  void add(const std::string& path, const at::Tensor& value);
};

/// Adds the parameters of one layer to its plan. Weights are normal, biases 0, and the
/// weights of norms 1.
///
///     LayerPlan plan{.name = "model.layers.0"};
///     const ParameterAdder add{plan, config.initializer_range};
///     add.norm("input_layernorm", width);
struct ParameterAdder {
  LayerPlan& plan;
  double stddev;

  void weight(const std::string& name, std::vector<int64_t> sizes) const;
  void bias(const std::string& name, int64_t size) const;
  /// A weight of ones, and a bias if there is one. `name` may be empty: the layer's
  /// own.
  void norm(const std::string& name, int64_t size, bool has_bias) const;
};

/// The layer, computed again in backward.
pipe::Layer checkpointed(pipe::Layer layer);

/// Lets a plan whose parameters are complete build a Module(first…, parts, options,
/// shared), computed again in backward if it is a block and the options say so.
template <class Module, class... First>
void build_as(LayerPlan& plan, const First&... first) {
  plan.build = [parts = PlannedModule::Parts{plan.name, plan.parameters},
                is_block = plan.work.is_block,
                first...](const BuildOptions& options, SharedParameters& shared) {
    pipe::Layer layer = pipe::layer(
        parts.layer, std::make_shared<Module>(first..., parts, options, shared));
    return is_block && options.checkpoint ? checkpointed(std::move(layer)) : layer;
  };
}

}  // namespace trireme::model
