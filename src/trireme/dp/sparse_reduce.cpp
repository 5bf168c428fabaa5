#include "trireme/dp/sparse_reduce.h"

#include <vector>

#include <ATen/Functions.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"

namespace trireme::dp {

at::Tensor reduce_sparse(
    const comm::Group& group,
    const at::Tensor& gradient,
    const at::Tensor& like,
    comm::ReduceOp op) {
  TRIREME_ASSERT(op == comm::ReduceOp::Sum || op == comm::ReduceOp::Mean);
  at::Tensor mine;
  if (!gradient.defined())
    mine = at::zeros(like.sizes(), like.options().layout(at::kSparse));
  else if (!gradient.is_sparse())
    // Some rank may have filled it up; rows are all that the others can take.
    mine = gradient.detach().to_sparse(1);
  else
    mine = gradient.detach().coalesce();
  // Rows come first in both, so that ranks may have different numbers of them.
  at::Tensor indices = mine._indices();
  at::Tensor values = mine._values();
  if (!gradient.defined()) {
    indices = at::empty({1, 0}, indices.options());
    std::vector<int64_t> shape = like.sizes().vec();
    shape[0] = 0;
    values = at::empty(shape, values.options());
  }
  std::vector<at::Tensor> all_indices;
  std::vector<at::Tensor> all_values;
  comm::all_gather_uneven(group, all_indices, indices);
  comm::all_gather_uneven(group, all_values, values);
  at::Tensor sum = at::sparse_coo_tensor(
                       at::cat(all_indices, 1), at::cat(all_values, 0), like.sizes())
                       .coalesce();
  if (op == comm::ReduceOp::Mean)
    sum._values().div_(group.size());
  return sum;
}

}  // namespace trireme::dp
