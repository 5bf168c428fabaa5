// Stages of layers, of modules and of functions.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "trireme/pipe/layers.h"
#include "trireme/pipe/stage_module.h"

namespace trireme::pipe {

/// A stage that runs layers one after the other; see check_layers().
///
///     auto stage = make_stage(split_by_parameters(model, 4)[2]);
StagePtr make_stage(LayerList layers);

/// What make_stage() of a function calls.
StagePtr make_function_stage(
    TensorsFunction forward, NamedTensors parameters, NamedTensors buffers);
/// A stage that calls a function, with the tensors that it trains and keeps. These must
/// be leaves, and no two may have one name.
///
///     make_stage([w](const Tensors& in) -> Tensors { return {in[0].mm(w)}; },
///                {{"w", w}});
template <FunctionOfTensors F>
StagePtr make_stage(
    F forward, NamedTensors parameters = {}, NamedTensors buffers = {}) {
  return make_function_stage(
      std::move(forward), std::move(parameters), std::move(buffers));
}

/// A stage of one module, with forward(Tensor) -> Tensor or forward(Tensors) ->
/// Tensors. Names are those in the module, after `prefix` if there is one.
template <class M>
StagePtr make_stage(std::shared_ptr<M> module, std::string prefix = {}) {
  return make_stage(LayerList{layer(std::move(prefix), std::move(module))});
}
/// The same for a holder: `make_stage(torch::nn::Linear(4, 4), "fc")`.
template <ModuleHolder H>
StagePtr make_stage(const H& holder, std::string prefix = {}) {
  return make_stage(holder.ptr(), std::move(prefix));
}

}  // namespace trireme::pipe
