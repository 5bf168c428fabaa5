#include "trireme/dp/sparse_reduce.h"

#include <vector>

#include <ATen/Functions.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"

namespace trireme::dp {

at::Tensor reduce_sparse(
    const comm::Group& group,
    const at::Tensor& gradient,
    at::IntArrayRef sizes,
    c10::ScalarType dtype,
    comm::ReduceOp op) {
  TRIREME_ASSERT(op == comm::ReduceOp::Sum || op == comm::ReduceOp::Mean);
  // Rows come first in both, so that ranks may have different numbers of them.
  std::vector<int64_t> shape = sizes.vec();
  shape[0] = 0;
  at::Tensor indices = at::empty({1, 0}, at::TensorOptions().dtype(at::kLong));
  at::Tensor values = at::empty(shape, at::TensorOptions().dtype(dtype));
  if (gradient.defined()) {
    // Some rank may have filled it up; rows are all that the others can take.
    const at::Tensor own = gradient.detach();
    const at::Tensor rows =
        (own.is_sparse() ? own : own.to_sparse(1)).to(dtype).coalesce();
    indices = rows._indices();
    values = rows._values();
  }
  std::vector<at::Tensor> all_indices;
  std::vector<at::Tensor> all_values;
  comm::all_gather_uneven(group, all_indices, indices);
  comm::all_gather_uneven(group, all_values, values);
  at::Tensor sum =
      at::sparse_coo_tensor(at::cat(all_indices, 1), at::cat(all_values, 0), sizes)
          .coalesce();
  if (op == comm::ReduceOp::Mean)
    sum._values().div_(group.size());
  return sum;
}

}  // namespace trireme::dp
