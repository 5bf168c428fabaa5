#include "trireme/dp/loss_scaler.h"

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
  bool finite = true;
  std::set<const void*> seen;  // a module lists a shared parameter under each name
  for (const at::Tensor& parameter : parameters)
    if (const at::Tensor gradient = parameter.grad();
        gradient.defined() && seen.insert(parameter.unsafeGetTensorImpl()).second) {
      finite = finite && all_finite(gradient);
      gradient.mul_(1 / scale_);
    }
  at::Tensor bad = at::full({1}, finite ? 0 : 1, at::TensorOptions().dtype(at::kInt));
  for (const comm::Group& group : groups)
    comm::all_reduce(group, bad, {.op = comm::ReduceOp::Max});
  finite_ = bad.item<int>() == 0;
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
