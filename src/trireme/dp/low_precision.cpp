#include "trireme/dp/low_precision.h"

#include <ATen/Functions.h>

namespace trireme::dp {

LowPrecisionScope::LowPrecisionScope(
    const std::vector<Parameter>& parameters, c10::ScalarType dtype) {
  for (const Parameter& parameter : parameters) {
    const at::Tensor& tensor = parameter.tensor;
    if (!c10::isFloatingType(tensor.scalar_type()) || tensor.scalar_type() == dtype)
      continue;
    if (!index_.emplace(tensor.unsafeGetTensorImpl(), tensors_.size()).second)
      continue;  // shared under another name
    tensors_.push_back(tensor);
    full_.push_back(tensor.detach());
  }
  for (size_t i = 0; i < tensors_.size(); ++i)
    tensors_[i].set_data(full_[i].to(dtype));
}

LowPrecisionScope::~LowPrecisionScope() {
  for (size_t i = 0; i < tensors_.size(); ++i)
    tensors_[i].set_data(full_[i]);
}

at::Tensor LowPrecisionScope::full(const at::Tensor& parameter) const {
  const auto found = index_.find(parameter.unsafeGetTensorImpl());
  return found == index_.end() ? parameter : full_[found->second];
}

void LowPrecisionScope::refresh() const {
  for (size_t i = 0; i < tensors_.size(); ++i)
    tensors_[i].set_data(full_[i].to(tensors_[i].scalar_type()));
}

at::Tensor cast_floating(const at::Tensor& tensor, c10::ScalarType dtype) {
  if (!tensor.defined() || !c10::isFloatingType(tensor.scalar_type()))
    return tensor;
  return tensor.to(dtype);
}

}  // namespace trireme::dp
