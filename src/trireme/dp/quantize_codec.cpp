#include "trireme/dp/quantize_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "trireme/core/error.h"

namespace trireme::dp {
namespace {

/// Wide enough for any vector unit: the compiler keeps one result a lane.
constexpr size_t kLanes = 16;

struct Scale {
  float least = 0;
  float step = 0;
};

Scale scale_of(const float* chunk) {
  float least[kLanes];
  float greatest[kLanes];
  float trouble[kLanes] = {};
  std::copy_n(chunk, kLanes, least);
  std::copy_n(chunk, kLanes, greatest);
  for (size_t i = 0; i < kQuantizeChunk; i += kLanes)
    for (size_t k = 0; k < kLanes; ++k) {
      const float x = chunk[i + k];
      least[k] = x < least[k] ? x : least[k];
      greatest[k] = x > greatest[k] ? x : greatest[k];
      trouble[k] += x * 0.0F;  // comparisons overlook NaN
    }
  float found = 0;
  for (const float t : trouble)
    found += t;
  const float low = *std::min_element(least, least + kLanes);
  const float range = *std::max_element(greatest, greatest + kLanes) - low;
  if (found != 0.0F || !std::isfinite(range))
    return {std::numeric_limits<float>::quiet_NaN(), 0};
  return {low, range / 255.0F};
}

void encode(const float* chunk, const Scale& scale, uint8_t* codes) {
  // A step may be so small that its inverse is infinite; then all codes are 0.
  const float inverse = 1.0F / scale.step;
  if (std::isnan(scale.least) || !std::isfinite(inverse)) {
    std::memset(codes, 0, kQuantizeChunk);
    return;
  }
  for (size_t i = 0; i < kQuantizeChunk; ++i) {
    const float code = (chunk[i] - scale.least) * inverse + 0.5F;
    codes[i] = static_cast<uint8_t>(static_cast<int32_t>(code < 255 ? code : 255.0F));
  }
}

/// Calls f(codes, scale, numbers) for each chunk. Codes come first, then scales.
template <class Byte, class Number, class F>
void for_each_chunk(std::span<Byte> bytes, std::span<Number> numbers, F&& f) {
  TRIREME_ASSERT(
      numbers.size() % kQuantizeChunk == 0 &&
      bytes.size() == quantized_bytes(numbers.size()));
  Byte* scales = bytes.data() + numbers.size();
  for (size_t i = 0; i < numbers.size(); i += kQuantizeChunk) {
    f(bytes.data() + i, scales, numbers.data() + i);
    scales += sizeof(Scale);
  }
}

template <bool kAdd>
void decode(std::span<const uint8_t> bytes, std::span<float> numbers) {
  for_each_chunk(
      bytes, numbers, [](const uint8_t* codes, const uint8_t* from, float* out) {
        Scale scale;
        std::memcpy(&scale, from, sizeof scale);
        for (size_t i = 0; i < kQuantizeChunk; ++i) {
          const float x = scale.least + static_cast<float>(codes[i]) * scale.step;
          out[i] = kAdd ? out[i] + x : x;
        }
      });
}

}  // namespace

void quantize(std::span<const float> numbers, std::span<uint8_t> bytes) {
  for_each_chunk(bytes, numbers, [](uint8_t* codes, uint8_t* to, const float* chunk) {
    const Scale scale = scale_of(chunk);
    encode(chunk, scale, codes);
    std::memcpy(to, &scale, sizeof scale);
  });
}

void dequantize(std::span<const uint8_t> bytes, std::span<float> numbers) {
  decode<false>(bytes, numbers);
}

void dequantize_add(std::span<const uint8_t> bytes, std::span<float> numbers) {
  decode<true>(bytes, numbers);
}

}  // namespace trireme::dp
