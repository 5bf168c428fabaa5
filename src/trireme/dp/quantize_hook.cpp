#include "trireme/dp/quantize_hook.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <span>

#include <ATen/Functions.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"

namespace trireme::dp {
namespace {

/// Wide enough for any vector unit: the compiler keeps one result a lane.
constexpr size_t kQuantizeLanes = 16;

struct Scale {
  float least = 0;
  float step = 0;
};

Scale scale_of(const float* chunk) {
  float least[kQuantizeLanes];
  float greatest[kQuantizeLanes];
  float trouble[kQuantizeLanes] = {};
  std::copy_n(chunk, kQuantizeLanes, least);
  std::copy_n(chunk, kQuantizeLanes, greatest);
  for (size_t i = 0; i < kQuantizeChunk; i += kQuantizeLanes)
    for (size_t k = 0; k < kQuantizeLanes; ++k) {
      const float x = chunk[i + k];
      least[k] = x < least[k] ? x : least[k];
      greatest[k] = x > greatest[k] ? x : greatest[k];
      trouble[k] += x * 0.0F;  // comparisons overlook NaN
    }
  float found = 0;
  for (const float t : trouble)
    found += t;
  const float low = *std::min_element(least, least + kQuantizeLanes);
  const float range = *std::max_element(greatest, greatest + kQuantizeLanes) - low;
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

namespace {

/// A bucket as one part a rank, in numbers and in bytes.
struct Parts {
  int64_t ranks = 1;
  int64_t numbers = 0;
  int64_t bytes = 0;

  Parts(int64_t count, int64_t elements) : ranks(count) {
    const auto chunk = static_cast<int64_t>(kQuantizeChunk);
    const int64_t whole = ranks * chunk;
    numbers = (elements + whole - 1) / whole * chunk;
    bytes = static_cast<int64_t>(quantized_bytes(static_cast<size_t>(numbers)));
  }

  std::span<float> numbers_of(const at::Tensor& tensor, int64_t part) const {
    return {
        tensor.mutable_data_ptr<float>() + part * numbers,
        static_cast<size_t>(numbers)};
  }
  std::span<uint8_t> bytes_of(const at::Tensor& tensor, int64_t part) const {
    return {
        tensor.mutable_data_ptr<uint8_t>() + part * bytes, static_cast<size_t>(bytes)};
  }
};

class QuantizeHook final : public CommHook {
 public:
  explicit QuantizeHook(const QuantizeOptions& options) : options_(options) {}

  std::string name() const override {
    return options_.error_feedback ? "quantize with error feedback" : "quantize";
  }

  void run(GradBucket& bucket, const Next& next) override {
    if (bucket.group().size() == 1 || bucket.buffer().numel() == 0)
      return next(bucket);
    const at::Tensor whole = bucket.buffer().is_complex()
                                 ? at::view_as_real(bucket.buffer()).view({-1})
                                 : bucket.buffer();
    const Parts parts(bucket.group().size(), whole.numel());
    const at::Tensor work = at::zeros({parts.ranks * parts.numbers}, at::kFloat);
    work.narrow(0, 0, whole.numel()).copy_(whole);
    if (options_.error_feedback)
      add_errors(bucket, work);
    exchange(bucket, parts, work);
    whole.copy_(work.narrow(0, 0, whole.numel()));
  }

 private:
  /// Reduces `work`, which is whole parts.
  void exchange(const GradBucket& bucket, const Parts& parts, const at::Tensor& work) {
    const auto options = at::TensorOptions().dtype(at::kByte);
    const at::Tensor sent = at::empty({parts.ranks * parts.bytes}, options);
    const at::Tensor got = at::empty_like(sent);
    for (int64_t r = 0; r < parts.ranks; ++r)
      quantize(parts.numbers_of(work, r), parts.bytes_of(sent, r));
    at::Tensor lost;
    if (options_.error_feedback) {
      lost = work.clone();
      subtract(parts, sent, lost, parts.ranks);
    }
    comm::all_to_all(bucket.group(), got, sent);

    const at::Tensor own = at::zeros({parts.numbers}, work.options());
    for (int64_t r = 0; r < parts.ranks; ++r)
      dequantize_add(parts.bytes_of(got, r), parts.numbers_of(own, 0));
    const bool mean = bucket.op() == comm::ReduceOp::Mean;
    if (mean)
      own.div_(static_cast<double>(parts.ranks));
    const at::Tensor result = sent.narrow(0, 0, parts.bytes);
    quantize(parts.numbers_of(own, 0), parts.bytes_of(result, 0));
    comm::all_gather(bucket.group(), got, result);
    for (int64_t r = 0; r < parts.ranks; ++r)
      dequantize(parts.bytes_of(got, r), parts.numbers_of(work, r));

    if (options_.error_feedback) {
      // What the result lost is this rank's alone to give back.
      subtract(parts, result, own, 1);
      lost.narrow(0, bucket.group().rank() * parts.numbers, parts.numbers)
          .add_(own, mean ? static_cast<double>(parts.ranks) : 1.0);
      keep_errors(bucket, lost);
    }
  }

  static void subtract(
      const Parts& parts,
      const at::Tensor& bytes,
      const at::Tensor& numbers,
      int64_t count) {
    const at::Tensor read = at::empty_like(numbers);
    for (int64_t r = 0; r < count; ++r)
      dequantize(parts.bytes_of(bytes, r), parts.numbers_of(read, r));
    numbers.sub_(read);
  }

  /// A gradient in a flat tensor. Dense gradients lie in one run, whatever their
  /// strides.
  static at::Tensor place(const GradBucket::Entry& entry, const at::Tensor& flat) {
    const int64_t width = entry.gradient.is_complex() ? 2 : 1;
    return flat.narrow(0, width * entry.begin, width * entry.gradient.numel());
  }

  void add_errors(const GradBucket& bucket, const at::Tensor& work) const {
    for (const GradBucket::Entry& entry : bucket.entries())
      if (const auto found = errors_.find(entry.parameter); found != errors_.end())
        place(entry, work).add_(found->second);
  }

  void keep_errors(const GradBucket& bucket, at::Tensor lost) {
    // A step that is skipped for its infinities must not spoil those after it.
    at::nan_to_num_(lost, 0.0, 0.0, 0.0);
    for (const GradBucket::Entry& entry : bucket.entries()) {
      at::Tensor& error = errors_[entry.parameter];
      if (!error.defined())
        error = at::empty_like(place(entry, lost));
      error.copy_(place(entry, lost));
    }
  }

  QuantizeOptions options_;
  std::map<size_t, at::Tensor> errors_;
};

}  // namespace

std::shared_ptr<CommHook> make_quantize_hook(const QuantizeOptions& options) {
  return std::make_shared<QuantizeHook>(options);
}

}  // namespace trireme::dp
