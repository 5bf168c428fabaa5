#include "trireme/comm/reduce_kernel.h"

#include "trireme/core/error.h"

namespace trireme::comm {

ReduceKernel find_kernel_baseline(ReduceOp op, c10::ScalarType dtype);
#if defined(__x86_64__)
ReduceKernel find_kernel_avx2(ReduceOp op, c10::ScalarType dtype);
ReduceKernel find_kernel_avx512(ReduceOp op, c10::ScalarType dtype);
#endif

Isa best_isa() {
#if defined(__x86_64__)
  static const Isa best = [] {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
      return Isa::Avx512;
    // Every processor with AVX2 also converts float16 (F16C).
    return __builtin_cpu_supports("avx2") ? Isa::Avx2 : Isa::Baseline;
  }();
  return best;
#else
  return Isa::Baseline;
#endif
}

std::string to_string(Isa isa) {
  switch (isa) {
    case Isa::Avx512:
      return "avx512";
    case Isa::Avx2:
      return "avx2";
    case Isa::Baseline:
      break;
  }
  return "baseline";
}

ReduceKernel reduce_kernel_of(
    [[maybe_unused]] Isa isa, ReduceOp op, c10::ScalarType dtype) {
#if defined(__x86_64__)
  if (isa == Isa::Avx512)
    return find_kernel_avx512(op, dtype);
  if (isa == Isa::Avx2)
    return find_kernel_avx2(op, dtype);
#endif
  return find_kernel_baseline(op, dtype);
}

ReduceKernel reduce_kernel(ReduceOp op, c10::ScalarType dtype) {
  const ReduceKernel kernel = reduce_kernel_of(best_isa(), op, dtype);
  if (kernel == nullptr)
    throw InvalidArgument(text(
        "[comm] expected a reduction that ",
        dtype_name(dtype),
        " has, got ",
        to_string(op),
        op == ReduceOp::Mean ? "; take the sum and divide, or convert to a float dtype"
                             : "; convert the tensor to a dtype that has it"));
  return kernel;
}

}  // namespace trireme::comm
