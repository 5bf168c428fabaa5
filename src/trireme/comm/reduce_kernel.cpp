#include "trireme/comm/reduce_kernel.h"

#include "trireme/core/error.h"

namespace trireme::comm {

ReduceKernels find_kernels_baseline(ReduceOp op, c10::ScalarType dtype);
#if defined(__x86_64__)
ReduceKernels find_kernels_avx2(ReduceOp op, c10::ScalarType dtype);
ReduceKernels find_kernels_avx512(ReduceOp op, c10::ScalarType dtype);
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

ReduceKernels reduce_kernels_of(
    [[maybe_unused]] Isa isa, ReduceOp op, c10::ScalarType dtype) {
#if defined(__x86_64__)
  if (isa == Isa::Avx512)
    return find_kernels_avx512(op, dtype);
  if (isa == Isa::Avx2)
    return find_kernels_avx2(op, dtype);
#endif
  return find_kernels_baseline(op, dtype);
}

c10::ScalarType partial_dtype(c10::ScalarType dtype) {
  return dtype == c10::ScalarType::Half || dtype == c10::ScalarType::BFloat16
             ? c10::ScalarType::Float
             : dtype;
}

namespace {

ReduceKernels best_kernels(ReduceOp op, c10::ScalarType dtype) {
  const ReduceKernels kernels = reduce_kernels_of(best_isa(), op, dtype);
  if (kernels.reduce == nullptr)
    throw InvalidArgument(text(
        "[comm] expected a reduction that ",
        dtype_name(dtype),
        " has, got ",
        to_string(op),
        op == ReduceOp::Mean ? "; take the sum and divide, or convert to a float dtype"
                             : "; convert the tensor to a dtype that has it"));
  return kernels;
}

}  // namespace

ReduceKernel reduce_kernel(ReduceOp op, c10::ScalarType dtype) {
  return best_kernels(op, dtype).reduce;
}

FoldKernel fold_kernel(ReduceOp op, c10::ScalarType dtype) {
  return best_kernels(op, dtype).fold;
}

}  // namespace trireme::comm
