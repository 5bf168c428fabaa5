// Computes with copies of the parameters in another dtype.
#pragma once
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/dp/parameter.h"

namespace trireme::dp {

/// Which part of the work is done in which dtype. Parameters themselves, and what the
/// optimizer sees, stay as they are.
struct MixedPrecision {
  /// Of the copies that forward and backward use, and of inputs.
  std::optional<c10::ScalarType> parameters{};
  /// That gradients are added up and reduced in; none: that of the parameters.
  std::optional<c10::ScalarType> reduction{};
  /// Of buffers, from the start.
  std::optional<c10::ScalarType> buffers{};
};

/// While it lives, floating parameters hold copies in another dtype. A graph that is
/// made meanwhile keeps using the copies; gradients go to the parameters.
class LowPrecisionScope {
 public:
  LowPrecisionScope(const std::vector<Parameter>& parameters, c10::ScalarType dtype);
  ~LowPrecisionScope();
  LowPrecisionScope(const LowPrecisionScope&) = delete;
  LowPrecisionScope& operator=(const LowPrecisionScope&) = delete;

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> full_;
};

/// A floating tensor in another dtype; all others as they are.
at::Tensor cast_floating(const at::Tensor& tensor, c10::ScalarType dtype);

}  // namespace trireme::dp
