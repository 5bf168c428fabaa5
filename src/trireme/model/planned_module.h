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

/// The layer, computed again in backward.
pipe::Layer checkpointed(pipe::Layer layer);

}  // namespace trireme::model
