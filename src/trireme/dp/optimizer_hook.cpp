#include "trireme/dp/optimizer_hook.h"

#include <algorithm>

#include "trireme/core/error.h"

namespace trireme::dp {

OptimizerHook::OptimizerHook(
    const std::vector<at::Tensor>& parameters, const MakeOptimizer& make)
    : parameters_(parameters) {
  if (parameters.empty() || !make)
    throw InvalidArgument(text(
        "[dp] expected parameters and a function that makes their optimizers, got ",
        parameters.size(),
        make ? " parameters" : " parameters and no function",
        "; give those of the model"));
  for (const at::Tensor& parameter : parameters) {
    handles_.push_back(parameter.detach());
    optimizers_.push_back(make({handles_.back()}));
  }
}

std::string OptimizerHook::name() const {
  return text("optimizer of ", parameters_.size(), " parameters");
}

void OptimizerHook::after(GradBucket& bucket) {
  for (const GradBucket::Entry& entry : bucket.entries()) {
    const auto found = std::find_if(
        parameters_.begin(), parameters_.end(), [&](const at::Tensor& parameter) {
          return parameter.is_same(entry.info->tensor);
        });
    if (found == parameters_.end() || !entry.used)
      continue;
    step(static_cast<size_t>(found - parameters_.begin()), entry);
    bucket.drop(entry.parameter);
  }
}

void OptimizerHook::step(size_t index, const GradBucket::Entry& entry) {
  const at::Tensor& parameter = parameters_[index];
  at::Tensor& handle = handles_[index];
  // Somebody gave the parameter other memory, or it holds a copy for the time being.
  if (handle.data_ptr() != entry.values.data_ptr() ||
      handle.scalar_type() != entry.values.scalar_type())
    handle.set_data(entry.values.detach());
  // A gradient that was reduced in a wider dtype is not rounded before it is used.
  const c10::ScalarType dtype =
      c10::promoteTypes(entry.gradient.scalar_type(), handle.scalar_type());
  handle.mutable_grad() = entry.gradient.to(dtype);
  // Optimizers write below autograd; a graph that still needs the old values must
  // notice. One that was made of copies does not need them.
  if (entry.values.is_same(parameter))
    parameter.unsafeGetTensorImpl()->bump_version();
  optimizers_[index]->step();
  handle.mutable_grad().reset();
}

}  // namespace trireme::dp
