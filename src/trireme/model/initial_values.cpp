#include "trireme/model/initial_values.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "trireme/autograd/random_stream.h"
#include "trireme/core/mix.h"

namespace trireme::model {

at::Generator generator_of(uint64_t seed, std::string_view name) {
  // Mixed, so that seeds 1 and 2 have nothing in common.
  return at::detail::createCPUGenerator(
      mix(seed + kMixStep) ^ autograd::layer_key(name));
}

at::Tensor make_value(
    const ParameterPlan& plan, std::string_view name, const BuildOptions& options) {
  const c10::AutoGradMode no_grad(false);
  using Kind = InitialValue::Kind;
  if (!options.initialise || plan.initial.kind == Kind::Zeros)
    return at::zeros(plan.sizes, options.dtype);
  if (plan.initial.kind == Kind::Ones)
    return at::ones(plan.sizes, options.dtype);
  const at::Tensor value = at::empty(plan.sizes, at::ScalarType::Float);
  value.normal_(0, plan.initial.stddev, generator_of(options.seed, name));
  return value.to(options.dtype);
}

}  // namespace trireme::model
