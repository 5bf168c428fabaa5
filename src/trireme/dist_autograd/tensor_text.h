// Tensors in messages.
#pragma once
#include <string>

#include <ATen/core/Tensor.h>

#include "trireme/core/error.h"

namespace trireme::dist_autograd {

/// "[3, 2] of Float".
inline std::string to_text(const at::Tensor& tensor) {
  return tensor.defined() ? text(tensor.sizes(), " of ", tensor.scalar_type())
                          : "an undefined tensor";
}

}  // namespace trireme::dist_autograd
