// Element-wise reduction over the contributions of several ranks, always in rank order,
// so that the result depends on nothing but the ranks.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include <c10/core/ScalarType.h>

#include "trireme/comm/collective.h"

namespace trireme::comm {

/// out[i] = op over all sources k of in[k][i]. `out` may be one of the sources. float16
/// and bfloat16 are summed in float32 and rounded once. Mean divides by `sources`.
using ReduceKernel =
    void (*)(std::byte* out, const std::byte* const* in, int sources, size_t count);

/// The fastest kernel for this processor. InvalidArgument where op and dtype do not go
/// together (a mean of integers, bits of floats).
///
/// bool counts as one bit: sum and max are "or", product and min are "and".
ReduceKernel reduce_kernel(ReduceOp op, c10::ScalarType dtype);

/// What sums are kept in while they go from host to host: float32 for float16 and
/// bfloat16, else the dtype itself.
c10::ScalarType partial_dtype(c10::ScalarType dtype);

/// What one host does for a reduction over many. `before` is what the ranks before
/// have come to, as partial sums; null for the first. `out` becomes partial sums again,
/// or, where `ranks` is not zero, the values themselves: of so many ranks in all. The
/// bits are those of the kernel over all ranks at once. `sources` may be zero if there
/// is something before.
struct FoldStep {
  const std::byte* before = nullptr;
  int ranks = 0;
};
using FoldKernel = void (*)(
    std::byte* out,
    const FoldStep& step,
    const std::byte* const* in,
    int sources,
    size_t count);
FoldKernel fold_kernel(ReduceOp op, c10::ScalarType dtype);

/// Both kernels of an op and a dtype.
struct ReduceKernels {
  ReduceKernel reduce = nullptr;
  FoldKernel fold = nullptr;
};

/// The instruction sets that kernels exist for, slowest first, and the one that is
/// used.
enum class Isa { Baseline, Avx2, Avx512 };
Isa best_isa();
std::string to_string(Isa isa);
/// The kernels of one instruction set, for tests; null where op and dtype do not go
/// together.
ReduceKernels reduce_kernels_of(Isa isa, ReduceOp op, c10::ScalarType dtype);

}  // namespace trireme::comm
