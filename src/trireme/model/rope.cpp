#include "trireme/model/rope.h"

#include <algorithm>
#include <numbers>

#include <ATen/TensorOperators.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

namespace trireme::model {
namespace {

// Long waves are stretched, short ones are not, and those between a little.
at::Tensor stretch_llama3(const at::Tensor& frequencies, const RopeScaling& scaling) {
  const auto length = static_cast<double>(scaling.original_max_position_embeddings);
  const double low = scaling.low_freq_factor, high = scaling.high_freq_factor;
  const at::Tensor waves = 2 * std::numbers::pi / frequencies;
  const at::Tensor stretched = frequencies / scaling.factor;
  const at::Tensor share = (length / waves - low) / (high - low);
  const at::Tensor between =
      (1 - share) * frequencies / scaling.factor + share * frequencies;
  return at::where(
      waves.gt(length / low),
      stretched,
      at::where(waves.lt(length / high), frequencies, between));
}

}  // namespace

at::Tensor rope_frequencies(const LlamaConfig& config) {
  const int64_t size = config.size_of_head();
  const at::Tensor exponents =
      at::arange(0, size, 2, at::ScalarType::Float) / static_cast<double>(size);
  const at::Tensor plain = 1.0 / at::pow(config.rope_theta, exponents);
  if (config.rope_scaling.rope_type == "linear")
    return plain / config.rope_scaling.factor;
  if (config.rope_scaling.rope_type == "llama3")
    return stretch_llama3(plain, config.rope_scaling);
  return plain;
}

RopeTable::Part RopeTable::part(int64_t first, int64_t count, const at::Tensor& like) {
  const std::lock_guard lock(mutex_);
  const int64_t needed = first + count;
  const at::Tensor& has = whole_.cos;
  if (!has.defined() || has.size(0) < needed ||
      has.scalar_type() != like.scalar_type() || has.device() != like.device()) {
    // What is made in inference mode could not be used in training.
    const c10::InferenceMode off(false);
    const c10::AutoGradMode no_grad(false);
    const int64_t had = has.defined() ? has.size(0) : 0;
    const int64_t room = needed > had ? std::max(needed, 2 * had) : had;
    const at::Tensor angles = at::arange(room, at::ScalarType::Float).unsqueeze(1) *
                              rope_frequencies(config_);
    const at::Tensor cos = angles.cos(), sin = angles.sin();
    whole_.cos = at::cat({cos, cos}, 1).unsqueeze(1).to(like.options());
    whole_.sin = at::cat({-sin, sin}, 1).unsqueeze(1).to(like.options());
  }
  return {whole_.cos.narrow(0, first, count), whole_.sin.narrow(0, first, count)};
}

at::Tensor turn(const at::Tensor& x, const RopeTable::Part& by) {
  // (a, b) -> (a cos - b sin, b cos + a sin) for the halves a and b of a head.
  return at::addcmul(x * by.cos, x.roll(x.size(-1) / 2, -1), by.sin);
}

}  // namespace trireme::model
