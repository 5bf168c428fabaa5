#include "trireme/model/initial_values.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include "trireme/autograd/random_stream.h"

namespace trireme::model {

at::Generator generator_of(uint64_t seed, std::string_view name) {
  // Steps of splitmix64, so that seeds 1 and 2 have nothing in common.
  uint64_t key = seed + 0x9e3779b97f4a7c15ULL;
  key = (key ^ (key >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  key = (key ^ (key >> 27U)) * 0x94d049bb133111ebULL;
  return at::detail::createCPUGenerator(
      (key ^ (key >> 31U)) ^ autograd::layer_key(name));
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
