#include "trireme/train/clicks.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <ATen/Functions.h>

namespace trireme::train {
namespace {

using Numbers = std::array<uint32_t, autograd::RandomStream::kGroup>;

Numbers draw(const autograd::RandomStream& stream, int64_t sample) {
  Numbers numbers{};
  stream.draw(static_cast<uint64_t>(sample), 0, numbers.data());
  return numbers;
}

// From 0 to below 1.
double uniform(uint32_t number) {
  return number * 0x1p-32;
}

int64_t part_of(double part, int64_t count) {
  return std::min(count - 1, static_cast<int64_t>(part * static_cast<double>(count)));
}

}  // namespace

Clicks::Clicks(uint64_t seed, int64_t users, int64_t items)
    : draws_({.seed = seed}, autograd::layer_key("clicks")),
      users_(users),
      items_(items) {
  const autograd::RandomStream stream({.seed = seed}, autograd::layer_key("tastes"));
  for (int64_t row = 0; row < users + items; ++row) {
    const Numbers numbers = draw(stream, row);
    for (size_t i = 0; i <= kTastes; ++i)  // of variance 1
      traits_.push_back(
          static_cast<float>((2 * uniform(numbers[i]) - 1) * std::sqrt(3.0)));
  }
}

double Clicks::chance(int64_t user, int64_t item) const {
  const float* one = traits_.data() + user * (kTastes + 1);
  const float* other = traits_.data() + (users_ + item) * (kTastes + 1);
  double liking = one[0] + other[0];
  for (int64_t i = 1; i <= kTastes; ++i)
    liking += one[i] * other[i] / 2;
  return 1 / (1 + std::exp(-1.5 * liking));
}

ClickBatch Clicks::samples(int64_t first, int64_t count) const {
  ClickBatch batch{
      .ids = at::empty({count, 2}, at::kLong), .clicked = at::empty({count})};
  auto* ids = batch.ids.mutable_data_ptr<int64_t>();
  auto* clicked = batch.clicked.mutable_data_ptr<float>();
  for (int64_t i = 0; i < count; ++i) {
    const Numbers numbers = draw(draws_, first + i);
    const int64_t user = part_of(uniform(numbers[0]), users_);
    const double shown = uniform(numbers[1]);
    const int64_t item = part_of(shown * shown, items_);
    ids[2 * i] = user;
    ids[2 * i + 1] = users_ + item;
    clicked[i] = uniform(numbers[2]) < chance(user, item) ? 1.F : 0.F;
  }
  return batch;
}

}  // namespace trireme::train
