// The first values of parameters, which do not depend on who makes them.
#pragma once
#include <cstdint>
#include <string_view>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "trireme/model/model_plan.h"

namespace trireme::model {

/// A generator that follows from the seed and the name alone. Torch's own is shared by
/// all ranks that are threads: what one draws would depend on the others.
at::Generator generator_of(uint64_t seed, std::string_view name);

/// A new tensor for a parameter. Random values are drawn for `name`, in fp32, and then
/// rounded to the dtype.
///
///     const at::Tensor w = make_value(plan.layers[0].parameters[0], "wte", {.seed =
///     7});
at::Tensor make_value(
    const ParameterPlan& plan, std::string_view name, const BuildOptions& options);

}  // namespace trireme::model
