// Tensors under their names in the whole model.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "trireme/pipe/stage_module.h"

namespace trireme::pipe {

/// "prefix.name"; only the name if there is no prefix.
std::string join_name(std::string_view prefix, std::string_view name);

/// Each tensor once, under the first of its names: what an optimizer must not step
/// twice.
NamedTensors without_repeats(const NamedTensors& tensors);

/// Names for a message: "a, b, c"; of many, some and how many there are.
std::string list_names(const std::vector<std::string>& names);

}  // namespace trireme::pipe
