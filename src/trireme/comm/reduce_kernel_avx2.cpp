// The reduction loops, compiled for avx2; see reduce_kernel_loops.h.
#include "trireme/comm/reduce_kernel_loops.h"

namespace trireme::comm {

ReduceKernel find_kernel_avx2(ReduceOp op, c10::ScalarType dtype) {
  return find_kernel(op, dtype);
}

}  // namespace trireme::comm
