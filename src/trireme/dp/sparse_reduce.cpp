#include "trireme/dp/sparse_reduce.h"

#include <vector>

#include <ATen/Functions.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"

namespace trireme::dp {

SparseGradient reduce_sparse(
    const comm::Group& group,
    const SparseGradient& gradient,
    at::IntArrayRef sizes,
    c10::ScalarType dtype,
    comm::ReduceOp op) {
  TRIREME_ASSERT(op == comm::ReduceOp::Sum || op == comm::ReduceOp::Mean);
  // Rows come first in both, so that ranks may have different numbers of them.
  std::vector<int64_t> shape = sizes.vec();
  shape[0] = 0;
  at::Tensor indices = at::empty({1, 0}, at::TensorOptions().dtype(at::kLong));
  at::Tensor values = at::empty(shape, at::TensorOptions().dtype(dtype));
  if (gradient.rows.defined()) {
    // Some rank may have filled it up; rows are all that the others can take.
    const at::Tensor own = gradient.rows.detach();
    const at::Tensor rows =
        (own.is_sparse() ? own : own.to_sparse(1)).to(dtype).coalesce();
    indices = rows._indices();
    values = rows._values();
  }
  std::vector<at::Tensor> all_indices;
  std::vector<at::Tensor> all_values;
  // Whether it was used rides on the indices, as one more.
  const at::Tensor used = at::full({1, 1}, gradient.used ? 1 : 0, indices.options());
  comm::all_gather_uneven(group, all_indices, at::cat({indices, used}, 1));
  comm::all_gather_uneven(group, all_values, values);
  SparseGradient sum;
  for (at::Tensor& one : all_indices) {
    const int64_t rows = one.size(1) - 1;
    sum.used |= one[0][rows].item<int64_t>() != 0;
    one = one.narrow(1, 0, rows);
  }
  sum.rows =
      at::sparse_coo_tensor(at::cat(all_indices, 1), at::cat(all_values, 0), sizes)
          .coalesce();
  if (op == comm::ReduceOp::Mean)
    sum.rows._values().div_(group.size());
  return sum;
}

}  // namespace trireme::dp
