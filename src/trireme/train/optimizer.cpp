#include "trireme/train/optimizer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "trireme/core/error.h"

namespace trireme::train {
namespace {

bool needs_master(const at::Tensor& parameter) {
  return parameter.scalar_type() == at::kBFloat16 ||
         parameter.scalar_type() == at::kHalf;
}

void check(const NamedTensors& parameters) {
  for (const auto& [name, tensor] : parameters)
    if (!tensor.defined() || !tensor.is_floating_point() || !tensor.is_cpu())
      throw InvalidArgument(text(
          "[train] expected floating parameters on the CPU, got ",
          name,
          " as ",
          tensor.defined() ? tensor.toString() : "nothing",
          "; convert or move it"));
}

}  // namespace

std::vector<std::string> state_kinds(const OptimizerConfig& config) {
  if (config.name == "AdamW")
    return {"exp_avg", "exp_avg_sq"};
  if (config.momentum != 0)
    return {"momentum"};
  return {};
}

// What a step works on: the parameters that have gradients.
struct Optimizer::Lists {
  std::vector<at::Tensor> masters, gradients, first, second, steps;
};

Optimizer::Optimizer(NamedTensors parameters, const OptimizerConfig& config)
    : parameters_(std::move(parameters)), config_(config) {
  check(parameters_);
  const at::NoGradGuard no_grad;
  const size_t kinds = state_kinds(config_).size();
  for (const auto& [name, tensor] : parameters_) {
    const at::Tensor values = tensor.detach();
    masters_.push_back(needs_master(tensor) ? values.to(at::kFloat) : values);
    const at::Tensor& master = masters_.back();
    if (kinds > 0)
      first_.push_back(at::zeros_like(master));
    if (kinds > 1)
      second_.push_back(at::zeros_like(master));
    steps_.push_back(at::zeros({}, at::kFloat));
  }
}

Optimizer::Lists Optimizer::with_gradients() const {
  Lists lists;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor gradient = parameters_[i].second.grad();
    if (!gradient.defined())
      continue;
    if (gradient.scalar_type() != masters_[i].scalar_type())
      gradient = gradient.to(masters_[i].scalar_type());
    lists.masters.push_back(masters_[i]);
    lists.gradients.push_back(gradient);
    if (!first_.empty())
      lists.first.push_back(first_[i]);
    if (!second_.empty())
      lists.second.push_back(second_[i]);
    lists.steps.push_back(steps_[i]);
  }
  return lists;
}

void Optimizer::step(double rate, double factor) {
  const at::NoGradGuard no_grad;
  Lists lists = with_gradients();
  if (lists.masters.empty())
    return;
  at::_foreach_add_(lists.steps, 1);
  const ScaleTensor scale =
      factor == 1 ? ScaleTensor() : ScaleTensor(at::full({}, 1 / factor, at::kFloat));
  if (config_.name == "AdamW")
    step_adamw(lists, rate, scale);
  else
    step_sgd(lists, rate, scale);
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (needs_master(parameters_[i].second))
      parameters_[i].second.detach().copy_(masters_[i]);
}

void Optimizer::step_adamw(Lists& lists, double rate, const ScaleTensor& scale) {
  at::_fused_adamw_(
      lists.masters,
      lists.gradients,
      lists.first,
      lists.second,
      /*max_exp_avg_sqs=*/{},
      lists.steps,
      rate,
      config_.beta1,
      config_.beta2,
      config_.weight_decay,
      config_.eps,
      /*amsgrad=*/false,
      /*maximize=*/false,
      /*grad_scale=*/scale,
      /*found_inf=*/{});
}

void Optimizer::step_sgd(Lists& lists, double rate, const ScaleTensor& scale) {
  // The first step takes the gradient itself as momentum. Zero momentum times its
  // factor plus the gradient is just that, so no step is special here.
  at::_fused_sgd_(
      lists.masters,
      lists.gradients,
      lists.first,
      config_.weight_decay,
      config_.momentum,
      rate,
      /*dampening=*/0,
      /*nesterov=*/false,
      /*maximize=*/false,
      /*is_first_step=*/false,
      /*grad_scale=*/scale,
      /*found_inf=*/{});
}

void Optimizer::zero_grad() {
  for (const auto& [name, tensor] : parameters_)
    tensor.mutable_grad() = at::Tensor();
}

void Optimizer::refresh_masters() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (needs_master(parameters_[i].second))
      masters_[i].copy_(parameters_[i].second);
}

NamedTensors Optimizer::state() const {
  NamedTensors all;
  const std::vector<std::string> kinds = state_kinds(config_);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const std::string& name = parameters_[i].first;
    if (!first_.empty())
      all.emplace_back(text(kinds[0], ".", name), first_[i]);
    if (!second_.empty())
      all.emplace_back(text(kinds[1], ".", name), second_[i]);
    if (needs_master(parameters_[i].second))
      all.emplace_back(text("master.", name), masters_[i]);
    all.emplace_back(text("step.", name), steps_[i]);
  }
  return all;
}

}  // namespace trireme::train
