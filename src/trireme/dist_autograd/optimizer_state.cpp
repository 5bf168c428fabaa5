#include "trireme/dist_autograd/optimizer_state.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "trireme/core/error.h"

namespace trireme::dist_autograd {
namespace {

namespace optim = torch::optim;

// Shows each member of a state, with its name.
template <class Visit>
void each_member(optim::SGDParamState& state, const Visit& visit) {
  visit("momentum_buffer", state.momentum_buffer());
}
template <class AnyAdamState, class Visit>
void each_of_adam(AnyAdamState& state, const Visit& visit) {
  visit("step", state.step());
  visit("exp_avg", state.exp_avg());
  visit("exp_avg_sq", state.exp_avg_sq());
  visit("max_exp_avg_sq", state.max_exp_avg_sq());
}
template <class Visit>
void each_member(optim::AdamParamState& state, const Visit& visit) {
  each_of_adam(state, visit);
}
template <class Visit>
void each_member(optim::AdamWParamState& state, const Visit& visit) {
  each_of_adam(state, visit);
}
template <class Visit>
void each_member(optim::AdagradParamState& state, const Visit& visit) {
  visit("step", state.step());
  visit("sum", state.sum());
}
template <class Visit>
void each_member(optim::RMSpropParamState& state, const Visit& visit) {
  visit("step", state.step());
  visit("square_avg", state.square_avg());
  visit("momentum_buffer", state.momentum_buffer());
  visit("grad_avg", state.grad_avg());
}

// The type of torch's state for each kind, in the order of OptimizerKind.
template <class Options>
struct StateOf;
template <>
struct StateOf<Sgd> : std::type_identity<optim::SGDParamState> {};
template <>
struct StateOf<Adam> : std::type_identity<optim::AdamParamState> {};
template <>
struct StateOf<AdamW> : std::type_identity<optim::AdamWParamState> {};
template <>
struct StateOf<Adagrad> : std::type_identity<optim::AdagradParamState> {};
template <>
struct StateOf<RmsProp> : std::type_identity<optim::RMSpropParamState> {};

// Numbers travel as tensors too.
struct Reader {
  TensorMap& into;
  const std::vector<std::string>& names;
  void operator()(const char* name, const at::Tensor& tensor) const {
    if (wants(name) && tensor.defined())
      into[name] = tensor.detach().clone();
  }
  void operator()(const char* name, std::int64_t number) const {
    if (wants(name))
      into[name] = at::full({}, number, at::kLong);
  }
  bool wants(const std::string& name) const {
    return std::find(names.begin(), names.end(), name) != names.end();
  }
};

struct Writer {
  const TensorMap& from;
  void operator()(const char* name, at::Tensor& tensor) const {
    if (const auto found = from.find(name); found != from.end())
      tensor = found->second.detach().clone();
  }
  void operator()(const char* name, std::int64_t& number) const {
    if (const auto found = from.find(name); found != from.end())
      number = found->second.item<std::int64_t>();
  }
};

std::string listed(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names)
    all += (all.empty() ? "" : ", ") + name;
  return all.empty() ? "nothing" : all;
}

void check_tensor(
    const at::Tensor& parameter,
    const std::string& owner,
    const std::string& name,
    const at::Tensor& tensor) {
  const bool number = name == "step";
  const bool good = tensor.defined() && !tensor.is_sparse() &&
                    (number ? tensor.numel() == 1 && tensor.scalar_type() == at::kLong
                            : tensor.sizes() == parameter.sizes() &&
                                  tensor.scalar_type() == parameter.scalar_type());
  if (!good)
    throw InvalidArgument(text(
        "[dist_autograd] expected ",
        name,
        " of ",
        owner,
        number ? " as one number of int64" : " in the parameter's shape and dtype",
        ", got ",
        tensor.defined() ? text(tensor.toString(), " of ", tensor.sizes()) : "nothing",
        "; load the state of an optimizer of the same parameters, in the same order"));
}

}  // namespace

TensorMap read_state(
    torch::optim::Optimizer& optimizer,
    const OptimizerKind& kind,
    const at::Tensor& parameter) {
  TensorMap state;
  const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
  if (found == optimizer.state().end())
    return state;
  const std::vector<std::string> names = state_names(kind);
  std::visit(
      [&]<class Options>(const Options&) {
        using State = typename StateOf<Options>::type;
        each_member(static_cast<State&>(*found->second), Reader{state, names});
      },
      kind);
  return state;
}

void check_state(
    const OptimizerKind& kind,
    const at::Tensor& parameter,
    const std::string& name,
    const TensorMap& state) {
  // Of these torch makes the state before the first step.
  if (state.empty() && !std::holds_alternative<Adagrad>(kind))
    return;
  std::vector<std::string> expected = state_names(kind);
  std::sort(expected.begin(), expected.end());
  std::vector<std::string> got;
  for (const auto& [member, tensor] : state)
    got.push_back(member);
  if (got != expected)
    throw InvalidArgument(text(
        "[dist_autograd] expected ",
        listed(expected),
        " as the state of ",
        name,
        " for ",
        name_of(kind),
        ", got ",
        listed(got),
        "; load the state of an optimizer of the same kind, with the same options"));
  for (const auto& [member, tensor] : state)
    check_tensor(parameter, name, member, tensor);
}

void write_state(
    torch::optim::Optimizer& optimizer,
    const OptimizerKind& kind,
    const at::Tensor& parameter,
    const TensorMap& state) {
  void* const key = parameter.unsafeGetTensorImpl();
  if (state.empty()) {
    optimizer.state().erase(key);
    return;
  }
  std::visit(
      [&]<class Options>(const Options&) {
        using State = typename StateOf<Options>::type;
        auto made = std::make_unique<State>();
        each_member(*made, Writer{state});
        optimizer.state()[key] = std::move(made);
      },
      kind);
}

}  // namespace trireme::dist_autograd
