// The sum of gradients that list rows.
#pragma once
#include <ATen/core/Tensor.h>

#include "trireme/comm/collective.h"
#include "trireme/comm/group.h"

namespace trireme::dp {

/// A gradient that lists rows.
struct SparseGradient {
  /// Undefined if there are none.
  at::Tensor rows{};
  /// Whether the parameter was used, here or, of a sum, on any rank; also without rows.
  bool used = false;
};

/// The union of everybody's rows in this dtype, each once, in order; rows of several
/// ranks are summed in the order of the ranks. Rows that are undefined add nothing.
/// Collective.
SparseGradient reduce_sparse(
    const comm::Group& group,
    const SparseGradient& gradient,
    at::IntArrayRef sizes,
    c10::ScalarType dtype,
    comm::ReduceOp op);

}  // namespace trireme::dp
