// The reduction loops, compiled for avx2; see reduce_kernel_loops.h.
#include "trireme/comm/reduce_kernel_loops.h"

namespace trireme::comm {

ReduceKernels find_kernels_avx2(ReduceOp op, c10::ScalarType dtype) {
  return find_kernels(op, dtype);
}

}  // namespace trireme::comm
