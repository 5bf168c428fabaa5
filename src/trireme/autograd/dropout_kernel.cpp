#include "trireme/autograd/dropout_kernel.h"

#include <bit>
#include <type_traits>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "trireme/core/error.h"

namespace trireme::autograd {
namespace {

/// What a product is computed in.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
[[gnu::always_inline]] inline T narrow(Wide<T> value) {
  return static_cast<T>(value);
}

/// Rounds to the nearest, ties to even, as the conversion of libtorch does, whose
/// branch keeps the compiler from using vectors.
template <>
[[gnu::always_inline]] inline c10::BFloat16 narrow<c10::BFloat16>(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  return {static_cast<uint16_t>(is_nan ? 0x7FC0 : rounded), c10::BFloat16::from_bits()};
}

template <class T>
[[gnu::always_inline]] inline void keep(
    const uint32_t* numbers,
    uint32_t threshold,
    Wide<T> scale,
    const T* in,
    T* out,
    int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const Wide<T> product = static_cast<Wide<T>>(in[i]) * scale;
    out[i] = narrow<T>(numbers[i] >= threshold ? product : Wide<T>(0));
  }
}

template <class T>
[[gnu::always_inline]] inline void keep_all(
    const DropoutMask& mask, const T* in, T* out, int64_t begin, int64_t end) {
  constexpr int64_t kGroup = RandomStream::kGroup;
  const auto scale = static_cast<Wide<T>>(mask.scale);
  alignas(64) uint32_t numbers[kGroup];
  for (int64_t k = begin; k < end; ++k) {
    const uint64_t sample = mask.first_sample + static_cast<uint64_t>(k);
    const T* from = in + k * mask.size;
    T* to = out + k * mask.size;
    int64_t i = 0;
    for (; i + kGroup <= mask.size; i += kGroup) {
      mask.stream.draw(sample, static_cast<uint64_t>(i / kGroup), numbers);
      keep(numbers, mask.threshold, scale, from + i, to + i, kGroup);
    }
    if (i < mask.size) {
      mask.stream.draw(sample, static_cast<uint64_t>(i / kGroup), numbers);
      keep(numbers, mask.threshold, scale, from + i, to + i, mask.size - i);
    }
  }
}

template <class T>
using Loop = void (*)(const DropoutMask&, const T*, T*, int64_t, int64_t);

template <class T>
void keep_baseline(
    const DropoutMask& mask, const T* in, T* out, int64_t begin, int64_t end) {
  keep_all(mask, in, out, begin, end);
}

#ifdef __x86_64__
template <class T>
[[gnu::target("avx2")]] void keep_avx2(
    const DropoutMask& mask, const T* in, T* out, int64_t begin, int64_t end) {
  keep_all(mask, in, out, begin, end);
}

template <class T>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq")]] void keep_avx512(
    const DropoutMask& mask, const T* in, T* out, int64_t begin, int64_t end) {
  keep_all(mask, in, out, begin, end);
}
#endif

/// The fastest loop that this machine can run. All give the same.
template <class T>
Loop<T> choose_loop() {
#ifdef __x86_64__
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return keep_avx512<T>;
  if (__builtin_cpu_supports("avx2"))
    return keep_avx2<T>;
#endif
  return keep_baseline<T>;
}

template <class T>
void run(
    const DropoutMask& mask, const void* in, void* out, int64_t begin, int64_t end) {
  static const Loop<T> loop = choose_loop<T>();
  loop(mask, static_cast<const T*>(in), static_cast<T*>(out), begin, end);
}

}  // namespace

bool has_mask_kernel(c10::ScalarType dtype) {
  return dtype == c10::kFloat || dtype == c10::kDouble || dtype == c10::kBFloat16 ||
         dtype == c10::kHalf;
}

void apply_mask(
    const DropoutMask& mask,
    c10::ScalarType dtype,
    const void* in,
    void* out,
    int64_t begin,
    int64_t end) {
  switch (dtype) {
    case c10::kFloat:
      return run<float>(mask, in, out, begin, end);
    case c10::kDouble:
      return run<double>(mask, in, out, begin, end);
    case c10::kBFloat16:
      return run<c10::BFloat16>(mask, in, out, begin, end);
    default:
      TRIREME_ASSERT(dtype == c10::kHalf);
      return run<c10::Half>(mask, in, out, begin, end);
  }
}

}  // namespace trireme::autograd
