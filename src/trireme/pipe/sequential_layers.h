// The layers of a torch::nn::Sequential.
#pragma once
#include <string>

#include <torch/nn/modules/container/sequential.h>

#include "trireme/pipe/layers.h"

namespace trireme::pipe {

/// One layer a child, under the child's name ("0", "1", … if none was given), after
/// `prefix` if the Sequential is part of a larger model. The modules are shared, not
/// copied. InvalidArgument if a child takes anything but one tensor; a child that
/// returns anything but one is refused when it runs.
///
///     const auto stages = split_by_parameters(layers_of(model), 4);
LayerList layers_of(const torch::nn::Sequential& model, const std::string& prefix = {});

}  // namespace trireme::pipe
