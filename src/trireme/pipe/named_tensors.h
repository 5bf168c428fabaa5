// Tensors under their names in the whole model.
#pragma once
#include <string>
#include <string_view>

#include "trireme/pipe/stage_module.h"

namespace trireme::pipe {

/// "prefix.name"; only the name if there is no prefix.
std::string join_name(std::string_view prefix, std::string_view name);

/// Each tensor once, under the first of its names: what an optimizer must not step
/// twice.
NamedTensors without_repeats(const NamedTensors& tensors);

}  // namespace trireme::pipe
