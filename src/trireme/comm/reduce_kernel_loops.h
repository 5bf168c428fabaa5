// The loops behind reduce_kernel.h. Compiled once per instruction set: each source file
// defines TRIREME_ISA and includes this, so everything here is local to that file, and
// nothing from the standard library is called (the linker could pick that set's copy for
// the whole program).
#pragma once
#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>

#if defined(__F16C__)
#include <immintrin.h>
#else
#include <c10/util/Half.h>
#endif

#include "trireme/comm/reduce_kernel.h"

namespace trireme::comm {
namespace {

// Fits into the first-level cache together with a block of a source.
constexpr size_t kBlock = 1024;

struct Bf16 {
  uint16_t bits;
};
struct Fp16 {
  uint16_t bits;
};

// ---- how a value is read into what it is summed in, and written back -----------------

template <class T>
struct Format {
  using Sum = T;
  static Sum load(T value) { return value; }
  static T store(Sum value) { return value; }
};

template <>
struct Format<Bf16> {
  using Sum = float;
  static float load(Bf16 value) {
    return __builtin_bit_cast(float, static_cast<uint32_t>(value.bits) << 16);
  }
  // Round to nearest, ties to even; NaN stays NaN. Without branches, so that it vectorises.
  static Bf16 store(float value) {
    const auto bits = __builtin_bit_cast(uint32_t, value);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return {static_cast<uint16_t>(value != value ? 0x7fc0 : rounded)};
  }
};

// ---- the operations --------------------------------------------------------------------

struct Add {
  template <class S>
  static S apply(S a, S b) {
    return static_cast<S>(a + b);
  }
};
struct Multiply {
  template <class S>
  static S apply(S a, S b) {
    if constexpr (sizeof(S) < sizeof(unsigned))  // would be promoted to int and overflow
      return static_cast<S>(static_cast<unsigned>(a) * static_cast<unsigned>(b));
    else
      return a * b;
  }
};
// NaN wins, as in torch.
struct Least {
  template <class S>
  static S apply(S a, S b) {
    return (a < b) | (a != a) ? a : b;
  }
};
struct Greatest {
  template <class S>
  static S apply(S a, S b) {
    return (a > b) | (a != a) ? a : b;
  }
};
struct And {
  template <class S>
  static S apply(S a, S b) {
    return static_cast<S>(a & b);
  }
};
struct Or {
  template <class S>
  static S apply(S a, S b) {
    return static_cast<S>(a | b);
  }
};

// Two sources need no buffer in between. `out` may be a source: every element is read
// before it is written, which is all that ivdep promises.
template <class T, class Op, bool kMean>
void reduce_two(T* out, const T* a, const T* b, size_t count) {
  using F = Format<T>;
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) {
    auto value = Op::apply(F::load(a[i]), F::load(b[i]));
    if constexpr (kMean)
      value = value / 2;
    out[i] = F::store(value);
  }
}

template <class T, class Op, bool kMean>
void reduce_many(T* out, const T* const* in, int sources, size_t count) {
  using F = Format<T>;
  using Sum = typename F::Sum;
  alignas(64) Sum sum[kBlock];
  for (size_t start = 0; start < count; start += kBlock) {
    const size_t n = count - start < kBlock ? count - start : kBlock;
    for (size_t i = 0; i < n; ++i)
      sum[i] = F::load(in[0][start + i]);
    for (int k = 1; k < sources; ++k) {
      const T* source = in[k] + start;
      for (size_t i = 0; i < n; ++i)
        sum[i] = Op::apply(sum[i], F::load(source[i]));
    }
    for (size_t i = 0; i < n; ++i) {
      if constexpr (kMean)
        sum[i] = sum[i] / static_cast<Sum>(sources);
      out[start + i] = F::store(sum[i]);
    }
  }
}

// ---- float16 converts whole vectors where the processor can ------------------------------

inline void load_block(float* out, const Fp16* in, size_t n) {
  size_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(
        out + i,
        _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  for (; i < n; ++i)
    out[i] = _cvtsh_ss(in[i].bits);
#else
  for (; i < n; ++i)
    out[i] = c10::detail::fp16_ieee_to_fp32_value(in[i].bits);
#endif
}

inline void store_block(Fp16* out, const float* in, size_t n) {
  size_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(out + i),
        _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; ++i)
    out[i].bits = _cvtss_sh(in[i], _MM_FROUND_TO_NEAREST_INT);
#else
  for (; i < n; ++i)
    out[i].bits = c10::detail::fp16_ieee_from_fp32_value(in[i]);
#endif
}

template <class Op, bool kMean>
void reduce_halves(Fp16* out, const Fp16* const* in, int sources, size_t count) {
  alignas(64) float sum[kBlock];
  alignas(64) float next[kBlock];
  for (size_t start = 0; start < count; start += kBlock) {
    const size_t n = count - start < kBlock ? count - start : kBlock;
    load_block(sum, in[0] + start, n);
    for (int k = 1; k < sources; ++k) {
      load_block(next, in[k] + start, n);
      for (size_t i = 0; i < n; ++i)
        sum[i] = Op::apply(sum[i], next[i]);
    }
    if constexpr (kMean)
      for (size_t i = 0; i < n; ++i)
        sum[i] = sum[i] / static_cast<float>(sources);
    store_block(out + start, sum, n);
  }
}

// ---- the table -----------------------------------------------------------------------------

template <class T, class Op, bool kMean = false>
void kernel(std::byte* out, const std::byte* const* in, int sources, size_t count) {
  auto* result = reinterpret_cast<T*>(out);
  const auto* const* source = reinterpret_cast<const T* const*>(in);
  if constexpr (__is_same(T, Fp16))
    reduce_halves<Op, kMean>(result, source, sources, count);
  else if (sources == 2)
    reduce_two<T, Op, kMean>(result, source[0], source[1], count);
  else
    reduce_many<T, Op, kMean>(result, source, sources, count);
}

template <class T>
ReduceKernel float_kernel(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return kernel<T, Add>;
    case ReduceOp::Mean:
      return kernel<T, Add, true>;
    case ReduceOp::Min:
      return kernel<T, Least>;
    case ReduceOp::Max:
      return kernel<T, Greatest>;
    case ReduceOp::Product:
      return kernel<T, Multiply>;
    default:
      return nullptr;
  }
}

// Signed overflow wraps here as it does in torch: the unsigned type does the arithmetic.
template <class T, class Unsigned>
ReduceKernel integer_kernel(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return kernel<Unsigned, Add>;
    case ReduceOp::Product:
      return kernel<Unsigned, Multiply>;
    case ReduceOp::Min:
      return kernel<T, Least>;
    case ReduceOp::Max:
      return kernel<T, Greatest>;
    case ReduceOp::BitAnd:
      return kernel<Unsigned, And>;
    case ReduceOp::BitOr:
      return kernel<Unsigned, Or>;
    default:
      return nullptr;
  }
}

inline ReduceKernel bool_kernel(ReduceOp op) {
  if (op == ReduceOp::Mean)
    return nullptr;
  const bool any =
      op == ReduceOp::Sum || op == ReduceOp::Max || op == ReduceOp::BitOr;
  return any ? kernel<uint8_t, Or> : kernel<uint8_t, And>;
}

inline ReduceKernel find_kernel(ReduceOp op, c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return float_kernel<float>(op);
    case c10::ScalarType::Double:
      return float_kernel<double>(op);
    case c10::ScalarType::BFloat16:
      return float_kernel<Bf16>(op);
    case c10::ScalarType::Half:
      return float_kernel<Fp16>(op);
    case c10::ScalarType::Byte:
      return integer_kernel<uint8_t, uint8_t>(op);
    case c10::ScalarType::Char:
      return integer_kernel<int8_t, uint8_t>(op);
    case c10::ScalarType::Short:
      return integer_kernel<int16_t, uint16_t>(op);
    case c10::ScalarType::Int:
      return integer_kernel<int32_t, uint32_t>(op);
    case c10::ScalarType::Long:
      return integer_kernel<int64_t, uint64_t>(op);
    case c10::ScalarType::Bool:
      return bool_kernel(op);
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace trireme::comm
