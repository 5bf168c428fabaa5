// The sum of gradients that list rows.
#pragma once
#include <ATen/core/Tensor.h>

#include "trireme/comm/collective.h"
#include "trireme/comm/group.h"

namespace trireme::dp {

/// The union of everybody's rows in this dtype, each once, in order; rows of several
/// ranks are summed in the order of the ranks. An undefined gradient adds nothing.
/// Collective.
at::Tensor reduce_sparse(
    const comm::Group& group,
    const at::Tensor& gradient,
    at::IntArrayRef sizes,
    c10::ScalarType dtype,
    comm::ReduceOp op);

}  // namespace trireme::dp
