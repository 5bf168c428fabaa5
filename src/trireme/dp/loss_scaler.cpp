#include "trireme/dp/loss_scaler.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"

namespace trireme::dp {
namespace {

bool all_finite(const at::Tensor& gradient) {
  const at::Tensor values = gradient.is_sparse() ? gradient._values() : gradient;
  return values.numel() == 0 || at::isfinite(values).all().item<bool>();
}

bool is_narrow(const at::Tensor& gradient) {
  return gradient.scalar_type() == at::kHalf;
}

/// In gradients; the worst counts.
enum class Found { Finite, Overflow, Narrow };

}  // namespace

LossScaler::LossScaler(const LossScalerOptions& options)
    : options_(options), scale_(options.initial) {
  if (!(options.initial > 0) || !(options.growth > 1) || !(options.backoff > 0) ||
      !(options.backoff < 1) || options.growth_interval < 1)
    throw InvalidArgument(text(
        "[dp] expected initial > 0, growth > 1, 0 < backoff < 1 and growth_interval >= "
        "1, got ",
        options.initial,
        ", ",
        options.growth,
        ", ",
        options.backoff,
        " and ",
        options.growth_interval,
        "; leave out what should be as usual"));
}

at::Tensor LossScaler::scale(const at::Tensor& loss) const {
  return loss.mul(scale_);
}

bool LossScaler::unscale(
    const std::vector<at::Tensor>& parameters, const std::vector<comm::Group>& groups) {
  if (unscaled_)
    throw InvalidArgument(
        "[dp] expected unscale() once a step, got it again; call step() in between");
  const c10::AutoGradMode no_grad(false);
  std::vector<at::Tensor> gradients;
  std::set<const void*> seen;  // a module lists a shared parameter under each name
  for (const at::Tensor& parameter : parameters)
    if (const at::Tensor gradient = parameter.grad();
        gradient.defined() && seen.insert(parameter.unsafeGetTensorImpl()).second)
      gradients.push_back(gradient);
  Found found = Found::Finite;
  if (std::any_of(gradients.begin(), gradients.end(), is_narrow))
    found = Found::Narrow;
  else if (!std::all_of(gradients.begin(), gradients.end(), all_finite))
    found = Found::Overflow;
  const at::Tensor worst =
      at::full({1}, static_cast<int>(found), at::TensorOptions().dtype(at::kInt));
  for (const comm::Group& group : groups)
    comm::all_reduce(group, worst, {.op = comm::ReduceOp::Max});
  const auto all = static_cast<Found>(worst.item<int>());
  if (all == Found::Narrow)
    throw InvalidArgument(text(
        "[dp] expected gradients of a wider dtype to unscale, got float16",
        found == all ? "" : " on another rank",
        ", where small ones would vanish; keep parameters in float32 (see "
        "mixed_precision), or set gradient_dtype and unrounded"));
  for (const at::Tensor& gradient : gradients)
    gradient.mul_(1 / scale_);
  finite_ = all == Found::Finite;
  unscaled_ = true;
  return finite_;
}

bool LossScaler::step(
    const std::vector<at::Tensor>& parameters,
    const std::function<void()>& optimizer,
    const std::vector<comm::Group>& groups) {
  if (!unscaled_)
    unscale(parameters, groups);
  unscaled_ = false;
  if (!finite_) {
    scale_ *= options_.backoff;
    good_steps_ = 0;
    return false;
  }
  optimizer();
  if (++good_steps_ == options_.growth_interval) {
    scale_ *= options_.growth;
    good_steps_ = 0;
  }
  return true;
}

void LossScaler::load(const State& state) {
  if (!(state.scale > 0) || state.good_steps < 0)
    throw InvalidArgument(text(
        "[dp] expected a scale above 0 and a count from 0, got ",
        state.scale,
        " and ",
        state.good_steps,
        "; load what state() gave"));
  scale_ = state.scale;
  good_steps_ = state.good_steps;
}

}  // namespace trireme::dp
