#include "trireme/dp/riders.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <ATen/Functions.h>

#include "trireme/core/error.h"

namespace trireme::dp {

void write_flags(const at::Tensor& riders, std::span<const uint8_t> flags) {
  TRIREME_ASSERT(riders.numel() == static_cast<int64_t>(flags.size()));
  // The way through the dispatcher costs more than a few flags.
  if (riders.scalar_type() == at::kFloat && riders.is_contiguous()) {
    std::copy(flags.begin(), flags.end(), riders.mutable_data_ptr<float>());
    return;
  }
  at::Tensor bytes = at::empty({riders.numel()}, at::TensorOptions().dtype(at::kByte));
  if (!flags.empty())
    std::memcpy(bytes.mutable_data_ptr(), flags.data(), flags.size());
  riders.copy_(bytes);
}

std::vector<int64_t> read_counts(const at::Tensor& riders, int ranks_of_mean) {
  const auto read = [&](const auto* values) {
    std::vector<int64_t> counts(static_cast<size_t>(riders.numel()));
    for (size_t i = 0; i < counts.size(); ++i)
      counts[i] = std::llround(static_cast<double>(values[i]) * ranks_of_mean);
    return counts;
  };
  if (riders.scalar_type() == at::kFloat && riders.is_contiguous())
    return read(riders.const_data_ptr<float>());
  const at::Tensor wide =
      (riders.is_complex() ? at::real(riders) : riders).to(at::kDouble).contiguous();
  return read(wide.const_data_ptr<double>());
}

void append_bits(std::vector<uint8_t>& flags, int64_t count) {
  if (count < 0 || count >> kCountElements != 0)
    throw InvalidArgument(text(
        "[dp] expected a weight from 0 to 2^",
        kCountElements,
        ", got ",
        count,
        "; give the number of samples or tokens"));
  for (int64_t bit = 0; bit < kCountElements; ++bit)
    flags.push_back(static_cast<uint8_t>(count >> bit & 1));
}

int64_t sum_of_bits(std::span<const int64_t> bits) {
  int64_t sum = 0;
  for (size_t bit = 0; bit < bits.size(); ++bit)
    sum += bits[bit] << bit;
  return sum;
}

}  // namespace trireme::dp
