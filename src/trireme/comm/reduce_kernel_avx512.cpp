// The reduction loops, compiled for avx512; see reduce_kernel_loops.h.
#include "trireme/comm/reduce_kernel_loops.h"

namespace trireme::comm {

ReduceKernel find_kernel_avx512(ReduceOp op, c10::ScalarType dtype) {
  return find_kernel(op, dtype);
}

}  // namespace trireme::comm
