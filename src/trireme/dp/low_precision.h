// Computes with copies of the parameters in another dtype.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/dp/parameter.h"

namespace trireme::dp {

/// While it lives, floating parameters hold copies in another dtype. A graph that is
/// made meanwhile keeps using the copies; gradients go to the parameters.
class LowPrecisionScope {
 public:
  LowPrecisionScope(const std::vector<Parameter>& parameters, c10::ScalarType dtype);
  ~LowPrecisionScope();
  LowPrecisionScope(const LowPrecisionScope&) = delete;
  LowPrecisionScope& operator=(const LowPrecisionScope&) = delete;

  /// The values that a parameter has when the scope ends; its own if it holds no copy.
  at::Tensor full(const at::Tensor& parameter) const;
  /// Makes the copies anew, after somebody has changed the full values.
  void refresh();
  /// Names of parameters whose copies somebody has written to since they were made:
  /// what the end of the scope drops. Optimizers write below versions, so this reads
  /// all copies.
  std::vector<std::string> changed() const;

 private:
  void make_copy(size_t i, c10::ScalarType dtype);

  std::vector<std::string> names_;
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> full_;
  /// Hashes of the copies as they were made.
  std::vector<uint64_t> made_;
  std::unordered_map<const c10::TensorImpl*, size_t> index_;
};

/// A floating tensor in another dtype; all others as they are.
at::Tensor cast_floating(const at::Tensor& tensor, c10::ScalarType dtype);

}  // namespace trireme::dp
