// The loops behind reduce_kernel.h. Compiled once per instruction set: each source file
// defines TRIREME_ISA and includes this, so everything here is local to that file, and
// nothing from the standard library is called (the linker could pick that set's copy
// for the whole program).
#pragma once
#include <cstddef>
#include <cstdint>

#include <c10/core/ScalarType.h>

#if defined(__F16C__)
#include <immintrin.h>
#else
#include <c10/util/Half.h>
#endif

#include "trireme/comm/reduce_kernel.h"

namespace trireme::comm {
namespace {

// Vectors of the compiler's own, as wide as a register of the set.
#if defined(__AVX512F__)
constexpr size_t kRegisterBytes = 64;
#elif defined(__AVX2__)
constexpr size_t kRegisterBytes = 32;
#else
constexpr size_t kRegisterBytes = 16;
#endif
template <class T>
struct VectorOf {
  typedef T Type
      __attribute__((vector_size(kRegisterBytes), aligned(alignof(T)), may_alias));
  static constexpr size_t kCount = kRegisterBytes / sizeof(T);
};

// ---- the operations, on single values and on vectors of them
// ---------------------------

struct Add {
  template <class S>
  static S apply(S a, S b) {
    return static_cast<S>(a + b);
  }
};
struct Multiply {
  template <class S>
  static S apply(S a, S b) {
    if constexpr (sizeof(S) < sizeof(unsigned))  // would be promoted to int and
                                                 // overflow
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

// ---- how values are read into what they are summed in, and written back
// ----------------

/// Types that are summed as they are.
template <class T>
struct Plain {
  using Item = T;
  using One = T;
  using Many = typename VectorOf<T>::Type;
  static constexpr size_t kMany = VectorOf<T>::kCount;
  static One load_one(const T* from) { return *from; }
  static void store_one(T* to, One value) { *to = value; }
  static Many load(const T* from) { return *reinterpret_cast<const Many*>(from); }
  static void store(T* to, Many value) { *reinterpret_cast<Many*>(to) = value; }
};

/// bfloat16, summed in float32. Two neighbours share a 32-bit lane, so that nothing has
/// to be packed: one float is the lane's upper half, the other its lower half shifted
/// up.
struct Bf16 {
  using Item = uint16_t;
  using One = float;
  using Lanes = typename VectorOf<uint32_t>::Type;
  using Floats = typename VectorOf<float>::Type;
  struct Many {
    Floats low, high;
  };
  static constexpr size_t kMany = 2 * VectorOf<float>::kCount;

  // Round to nearest, ties to even, into the upper half; NaN stays NaN.
  static uint32_t rounded(float value) {
    const auto bits = __builtin_bit_cast(uint32_t, value);
    return value != value ? 0x7fc00000U : bits + 0x7fffU + (bits >> 16 & 1U);
  }
  static Lanes rounded(Floats value) {
    const auto bits = __builtin_bit_cast(Lanes, value);
    const Lanes near = bits + 0x7fffU + (bits >> 16 & 1U);
    return value != value ? Lanes{} + 0x7fc00000U : near;
  }
  static float load_one(const uint16_t* from) {
    return __builtin_bit_cast(float, static_cast<uint32_t>(*from) << 16);
  }
  static void store_one(uint16_t* to, float value) {
    *to = static_cast<uint16_t>(rounded(value) >> 16);
  }
  static Many load(const uint16_t* from) {
    Lanes two;
    __builtin_memcpy(&two, from, sizeof two);
    return {
        __builtin_bit_cast(Floats, two << 16),
        __builtin_bit_cast(Floats, two & 0xffff0000U)};
  }
  static void store(uint16_t* to, Many value) {
    const Lanes two = rounded(value.low) >> 16 | (rounded(value.high) & 0xffff0000U);
    __builtin_memcpy(to, &two, sizeof two);
  }
};

/// float16, summed in float32; the processor converts where it can.
struct Fp16 {
  using Item = uint16_t;
  using One = float;
#if defined(__F16C__)
  using Many = __m256;
  static constexpr size_t kMany = 8;
  static float load_one(const uint16_t* from) {
    return _cvtsh_ss(*from);
  }
  static void store_one(uint16_t* to, float value) {
    *to = _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT);
  }
  static Many load(const uint16_t* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static void store(uint16_t* to, Many value) {
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(to),
        _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
  }
#else
  using Many = float;
  static constexpr size_t kMany = 1;
  static float load_one(const uint16_t* from) {
    return c10::detail::fp16_ieee_to_fp32_value(*from);
  }
  static void store_one(uint16_t* to, float value) {
    *to = c10::detail::fp16_ieee_from_fp32_value(value);
  }
  static Many load(const uint16_t* from) {
    return load_one(from);
  }
  static void store(uint16_t* to, Many value) {
    store_one(to, value);
  }
#endif
};

template <class Op, class Many>
Many combine(Many a, Many b) {
  if constexpr (__is_same(Many, Bf16::Many))
    return {Op::apply(a.low, b.low), Op::apply(a.high, b.high)};
  else
    return Op::apply(a, b);
}

template <class Many>
Many divided(Many value, float divisor) {
  if constexpr (__is_same(Many, Bf16::Many))
    return {value.low / divisor, value.high / divisor};
  else
    return value / divisor;
}

// ---- the loop
// ----------------------------------------------------------------------------

// Sums stay in registers: a buffer in between would cost as much as the sources. `out`
// may be a source, since every element is read before it is written.
template <class Format, class Op, bool kMean>
void reduce_all(
    typename Format::Item* out,
    const typename Format::Item* const* in,
    int sources,
    size_t count) {
  constexpr size_t kUnroll = 4;
  constexpr size_t kTile = kUnroll * Format::kMany;
  const auto divisor = static_cast<float>(sources);
  size_t at = 0;
  for (; at + kTile <= count; at += kTile) {
    typename Format::Many sum[kUnroll];
#pragma GCC unroll 4
    for (size_t u = 0; u < kUnroll; ++u)
      sum[u] = Format::load(in[0] + at + u * Format::kMany);
    for (int k = 1; k < sources; ++k) {
      const auto* source = in[k] + at;
#pragma GCC unroll 4
      for (size_t u = 0; u < kUnroll; ++u)
        sum[u] = combine<Op>(sum[u], Format::load(source + u * Format::kMany));
    }
#pragma GCC unroll 4
    for (size_t u = 0; u < kUnroll; ++u) {
      if constexpr (kMean)
        sum[u] = divided(sum[u], divisor);
      Format::store(out + at + u * Format::kMany, sum[u]);
    }
  }
  for (; at < count; ++at) {
    auto sum = Format::load_one(in[0] + at);
    for (int k = 1; k < sources; ++k)
      sum = Op::apply(sum, Format::load_one(in[k] + at));
    if constexpr (kMean)
      sum = sum / static_cast<typename Format::One>(sources);
    Format::store_one(out + at, sum);
  }
}

// ---- a part of the ranks
// ------------------------------------------------------------------------

// Items as what they are summed in, in the order in which they lie: partial sums travel
// between hosts whose registers may differ.
template <class Format>
void widen(typename Format::One* to, const typename Format::Item* from, size_t count) {
  for (size_t i = 0; i < count; ++i)
    to[i] = Format::load_one(from + i);
}

#if defined(__F16C__)
template <>
inline void widen<Fp16>(float* to, const uint16_t* from, size_t count) {
  size_t i = 0;
  for (; i + Fp16::kMany <= count; i += Fp16::kMany)
    _mm256_storeu_ps(to + i, Fp16::load(from + i));
  for (; i < count; ++i)
    to[i] = Fp16::load_one(from + i);
}
#endif

template <class Format>
void narrow(typename Format::Item* to, const typename Format::One* from, size_t count) {
  for (size_t i = 0; i < count; ++i)
    Format::store_one(to + i, from[i]);
}

#if defined(__F16C__)
template <>
inline void narrow<Fp16>(uint16_t* to, const float* from, size_t count) {
  size_t i = 0;
  for (; i + Fp16::kMany <= count; i += Fp16::kMany)
    Fp16::store(to + i, _mm256_loadu_ps(from + i));
  for (; i < count; ++i)
    Fp16::store_one(to + i, from[i]);
}
#endif

// A tile at a time, which stays in the first cache. `out` may be a source or what came
// before, since a tile is read before it is written.
template <class Format, class Op, bool kMean>
void fold(
    std::byte* out,
    const FoldStep& step,
    const std::byte* const* in,
    int sources,
    size_t count) {
  using Item = typename Format::Item;
  using One = typename Format::One;
  constexpr size_t kTile = 2048 / sizeof(One);
  One sum[kTile], next[kTile];
  for (size_t at = 0; at < count; at += kTile) {
    const size_t tile = count - at < kTile ? count - at : kTile;
    int k = 0;
    if (step.before != nullptr)
      __builtin_memcpy(sum, step.before + at * sizeof(One), tile * sizeof(One));
    else
      widen<Format>(sum, reinterpret_cast<const Item*>(in[k++]) + at, tile);
    for (; k < sources; ++k) {
      widen<Format>(next, reinterpret_cast<const Item*>(in[k]) + at, tile);
      for (size_t i = 0; i < tile; ++i)
        sum[i] = Op::apply(sum[i], next[i]);
    }
    if constexpr (kMean)
      if (step.ranks != 0)
        for (size_t i = 0; i < tile; ++i)
          sum[i] = sum[i] / static_cast<One>(step.ranks);
    if (step.ranks != 0)
      narrow<Format>(reinterpret_cast<Item*>(out) + at, sum, tile);
    else
      __builtin_memcpy(out + at * sizeof(One), sum, tile * sizeof(One));
  }
}

// ---- the table
// -----------------------------------------------------------------------------

template <class Format, class Op, bool kMean = false>
void kernel(std::byte* out, const std::byte* const* in, int sources, size_t count) {
  using Item = typename Format::Item;
  reduce_all<Format, Op, kMean>(
      reinterpret_cast<Item*>(out),
      reinterpret_cast<const Item* const*>(in),
      sources,
      count);
}

/// The loops for one op over one format.
template <class Format, class Op, bool kMean = false>
constexpr ReduceKernels kKernels = {kernel<Format, Op, kMean>, fold<Format, Op, kMean>};

template <class Format>
ReduceKernels float_kernel(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return kKernels<Format, Add>;
    case ReduceOp::Mean:
      return kKernels<Format, Add, true>;
    case ReduceOp::Min:
      return kKernels<Format, Least>;
    case ReduceOp::Max:
      return kKernels<Format, Greatest>;
    case ReduceOp::Product:
      return kKernels<Format, Multiply>;
    default:
      return {};
  }
}

// Signed overflow wraps here as it does in torch: the unsigned type does the
// arithmetic.
template <class T, class Unsigned>
ReduceKernels integer_kernel(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return kKernels<Plain<Unsigned>, Add>;
    case ReduceOp::Product:
      return kKernels<Plain<Unsigned>, Multiply>;
    case ReduceOp::Min:
      return kKernels<Plain<T>, Least>;
    case ReduceOp::Max:
      return kKernels<Plain<T>, Greatest>;
    case ReduceOp::BitAnd:
      return kKernels<Plain<Unsigned>, And>;
    case ReduceOp::BitOr:
      return kKernels<Plain<Unsigned>, Or>;
    default:
      return {};
  }
}

inline ReduceKernels bool_kernel(ReduceOp op) {
  if (op == ReduceOp::Mean)
    return {};
  const bool any = op == ReduceOp::Sum || op == ReduceOp::Max || op == ReduceOp::BitOr;
  return any ? kKernels<Plain<uint8_t>, Or> : kKernels<Plain<uint8_t>, And>;
}

inline ReduceKernels find_kernels(ReduceOp op, c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float:
      return float_kernel<Plain<float>>(op);
    case c10::ScalarType::Double:
      return float_kernel<Plain<double>>(op);
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
    case c10::ScalarType::UInt16:
      return integer_kernel<uint16_t, uint16_t>(op);
    case c10::ScalarType::UInt32:
      return integer_kernel<uint32_t, uint32_t>(op);
    case c10::ScalarType::UInt64:
      return integer_kernel<uint64_t, uint64_t>(op);
    case c10::ScalarType::Bool:
      return bool_kernel(op);
    default:
      return {};
  }
}

}  // namespace
}  // namespace trireme::comm
