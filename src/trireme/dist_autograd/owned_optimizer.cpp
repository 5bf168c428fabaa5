#include "trireme/dist_autograd/owned_optimizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/optim/optimizer.h>

#include "trireme/core/error.h"
#include "trireme/rpc/call_context.h"

namespace trireme::dist_autograd {

struct OwnedOptimizer::Parameter {
  std::int64_t number = 0;
  at::Tensor tensor;
  /// The same memory under another handle, with a `.grad` of its own: that of the
  /// tensor belongs to others.
  at::Tensor handle;
  std::string name() const { return text("parameter ", number); }
};

struct OwnedOptimizer::Group {
  std::int64_t number = 0;
  OptimizerKind kind;
  std::vector<Parameter> parameters;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

namespace {

at::Tensor values_of(const at::Tensor& gradient) {
  return gradient.is_sparse() ? gradient.coalesce().values() : gradient;
}

double norm_of(const at::Tensor& gradient) {
  return gradient.numel() == 0 ? 0 : at::norm(values_of(gradient), 2).item<double>();
}

bool is_finite(const at::Tensor& gradient) {
  // A norm may overflow where no element does.
  return std::isfinite(norm_of(gradient)) ||
         at::isfinite(values_of(gradient)).all().item<bool>();
}

void check_parameter(const at::Tensor& tensor, std::int64_t number) {
  const std::string got = !tensor.defined()         ? "an undefined tensor"
                          : !tensor.requires_grad() ? "one that does not require grad"
                          : !tensor.is_leaf()       ? "the result of an operation"
                                                    : "";
  if (!got.empty())
    throw InvalidArgument(text(
        "[dist_autograd] expected parameter ",
        number,
        " to be a leaf that requires grad, got ",
        got,
        "; leave it out, or call set_requires_grad(true) before"));
}

// Gives handles their gradients, and takes them back whatever happens.
class LentGradients {
 public:
  LentGradients() = default;
  ~LentGradients() {
    for (at::Tensor& handle : handles_)
      handle.mutable_grad().reset();
  }
  LentGradients(const LentGradients&) = delete;
  LentGradients& operator=(const LentGradients&) = delete;
  void lend(at::Tensor handle, at::Tensor gradient) {
    handles_.push_back(handle);
    handle.mutable_grad() = std::move(gradient);
  }

 private:
  std::vector<at::Tensor> handles_;
};

Deadline patience() {
  return rpc::nested_deadline(Deadline::after(std::chrono::minutes(5)));
}

}  // namespace

std::int64_t StepGradients::defined() const {
  return std::count_if(
      all.begin(), all.end(), [](const at::Tensor& t) { return t.defined(); });
}

double StepGradients::squares() const {
  double squares = 0;
  for (const at::Tensor& gradient : all)
    if (gradient.defined())
      squares += std::pow(norm_of(gradient), 2);
  return squares;
}

OwnedOptimizer::OwnedOptimizer(
    const std::vector<OwnedGroup>& groups, ParameterLocks& locks) {
  for (const OwnedGroup& group : groups)
    add(group);
  std::vector<at::Tensor> tensors;
  std::map<const void*, std::int64_t> seen;
  each([&](const Group&, const Parameter& parameter) {
    tensors.push_back(parameter.tensor);
    const auto [first, added] =
        seen.emplace(parameter.tensor.unsafeGetTensorImpl(), parameter.number);
    if (!added)
      throw InvalidArgument(text(
          "[dist_autograd] expected each parameter once, got one as parameter ",
          first->second,
          " and as ",
          parameter.name(),
          "; leave one of them out"));
  });
  locks_ = locks.of(tensors);
}

OwnedOptimizer::~OwnedOptimizer() = default;

void OwnedOptimizer::add(const OwnedGroup& given) {
  if (given.group < 0 || given.parameters.size() != given.numbers.size())
    throw InvalidArgument(text(
        "[dist_autograd] expected a group with a number for each parameter, got group ",
        given.group,
        " with ",
        given.parameters.size(),
        " parameters and ",
        given.numbers.size(),
        " numbers; make it by DistributedOptimizer"));
  auto group = std::make_unique<Group>();
  group->number = given.group;
  group->kind = given.kind;
  std::vector<at::Tensor> handles;
  for (std::size_t i = 0; i < given.parameters.size(); ++i) {
    const at::Tensor tensor = *given.parameters[i].local_value();
    check_parameter(tensor, given.numbers[i]);
    // No detach(): torch's optimizers would count up the version of the tensor.
    handles.push_back(tensor.variable_data());
    group->parameters.push_back({given.numbers[i], tensor, handles.back()});
  }
  group->optimizer = make_optimizer(given.kind, handles);
  groups_.push_back(std::move(group));
}

template <class Visit>
void OwnedOptimizer::each(const Visit& visit) const {
  for (const auto& group : groups_)
    for (Parameter& parameter : group->parameters)
      visit(*group, parameter);
}

LocksHeld OwnedOptimizer::lock() const {
  return LocksHeld(locks_, patience());
}

StepGradients OwnedOptimizer::gradients(const Gradients* of, bool finite) const {
  StepGradients gradients;
  each([&](const Group& group, const Parameter& parameter) {
    const at::Tensor gradient = of ? of->get(parameter.tensor) : at::Tensor();
    if (gradient.defined())
      check_gradient(parameter, group.kind, gradient, finite);
    gradients.all.push_back(gradient);
  });
  return gradients;
}

void OwnedOptimizer::check_gradient(
    const Parameter& parameter,
    const OptimizerKind& kind,
    const at::Tensor& gradient,
    bool finite) const {
  if (gradient.sizes() != parameter.tensor.sizes())
    throw Error(text(
        "[dist_autograd] expected a gradient of ",
        parameter.name(),
        " in its shape ",
        parameter.tensor.sizes(),
        ", got one of ",
        gradient.sizes(),
        "; look who has set it"));
  if (gradient.is_sparse() && !takes_sparse(kind))
    throw Error(text(
        "[dist_autograd] expected dense gradients for ",
        name_of(kind),
        ", got a sparse one of ",
        parameter.name(),
        "; take Sgd or Adagrad without weight_decay for it"));
  if (finite && !is_finite(gradient))
    throw Error(text(
        "[dist_autograd] expected finite gradients, got one of ",
        parameter.name(),
        " that has an infinite element or NaN; look at the loss, nobody has stepped"));
}

void OwnedOptimizer::step(const StepGradients& gradients, const StepOrder& order) {
  const LocksHeld held = lock();
  const c10::AutoGradMode no_grad(false);
  LentGradients lent;
  std::size_t next = 0;
  each([&](const Group& group, Parameter& parameter) {
    const at::Tensor& gradient = gradients.all.at(next++);
    if (static_cast<std::size_t>(group.number) >= order.rates.size())
      throw InvalidArgument(text(
          "[dist_autograd] expected a learning rate for each group, got ",
          order.rates.size(),
          " and none for group ",
          group.number,
          "; make the step by DistributedOptimizer"));
    // Somebody may have given the parameter other memory, or another shape.
    parameter.handle.set_data(parameter.tensor.variable_data());
    if (gradient.defined())
      lent.lend(
          parameter.handle, order.scale == 1 ? gradient : gradient.mul(order.scale));
  });
  for (const auto& group : groups_) {
    group->optimizer->param_groups()[0].options().set_lr(
        order.rates[static_cast<std::size_t>(group->number)]);
    group->optimizer->step();
  }
}

TensorMap OwnedOptimizer::state() {
  const LocksHeld held = lock();
  TensorMap all;
  each([&](const Group& group, const Parameter& parameter) {
    for (auto& [name, tensor] :
         read_state(*group.optimizer, group.kind, parameter.handle))
      all[text(parameter.number, '.', name)] = tensor;
  });
  return all;
}

void OwnedOptimizer::load_state(const TensorMap& state, bool only_check) {
  const LocksHeld held = lock();
  std::map<std::int64_t, TensorMap> by_number;
  each([&](const Group& group, const Parameter& parameter) {
    TensorMap& own = by_number[parameter.number];
    const std::string prefix = text(parameter.number, '.');
    for (auto at = state.lower_bound(prefix);
         at != state.end() && at->first.starts_with(prefix);
         ++at)
      own[at->first.substr(prefix.size())] = at->second;
    check_state(group.kind, parameter.tensor, parameter.name(), own);
  });
  if (!only_check)
    each([&](const Group& group, const Parameter& parameter) {
      write_state(
          *group.optimizer, group.kind, parameter.handle, by_number[parameter.number]);
    });
}

}  // namespace trireme::dist_autograd
