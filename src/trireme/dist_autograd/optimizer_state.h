// What torch's optimizers keep of a parameter, by name.
#pragma once
#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include "trireme/dist_autograd/optimizer_kind.h"

namespace trireme::dist_autograd {

using TensorMap = std::map<std::string, at::Tensor>;

/// Copies of all that it keeps of a parameter, under state_names(); nothing if it has
/// not stepped it yet.
TensorMap read_state(
    torch::optim::Optimizer& optimizer,
    const OptimizerKind& kind,
    const at::Tensor& parameter);

/// InvalidArgument if such an optimizer cannot go on from that; `name` is the
/// parameter's, for the error. Nothing is a state too: that before the first step.
void check_state(
    const OptimizerKind& kind,
    const at::Tensor& parameter,
    const std::string& name,
    const TensorMap& state);

/// Goes on from a state that check_state() has found good.
void write_state(
    torch::optim::Optimizer& optimizer,
    const OptimizerKind& kind,
    const at::Tensor& parameter,
    const TensorMap& state);

}  // namespace trireme::dist_autograd
