#include "trireme/dist_autograd/optimizer_kind.h"

#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include "trireme/core/error.h"

namespace trireme::dist_autograd {
namespace {

// What a number of the options may be.
struct OptionRange {
  std::string_view name;
  double value = 0;
  double from = 0;
  /// Not this one itself.
  double below = std::numeric_limits<double>::infinity();
  bool above_from = false;
};

void check_range(const std::string& optimizer, const OptionRange& option) {
  const bool high =
      option.above_from ? option.value > option.from : option.value >= option.from;
  if (high && option.value < option.below)
    return;
  throw InvalidArgument(text(
      "[dist_autograd] expected ",
      optimizer,
      " with ",
      option.name,
      option.above_from ? " above " : " of at least ",
      option.from,
      std::isfinite(option.below) ? text(" and below ", option.below) : " and finite",
      ", got ",
      option.value,
      "; see its options in optimizer_kind.h"));
}

std::vector<OptionRange> ranges(const Sgd& sgd) {
  return {
      {.name = "momentum", .value = sgd.momentum},
      {.name = "weight_decay", .value = sgd.weight_decay}};
}
template <class AnyAdam>
std::vector<OptionRange> adam_ranges(const AnyAdam& adam) {
  return {
      {.name = "beta1", .value = adam.beta1, .below = 1},
      {.name = "beta2", .value = adam.beta2, .below = 1},
      {.name = "eps", .value = adam.eps},
      {.name = "weight_decay", .value = adam.weight_decay}};
}
std::vector<OptionRange> ranges(const Adam& adam) {
  return adam_ranges(adam);
}
std::vector<OptionRange> ranges(const AdamW& adam) {
  return adam_ranges(adam);
}
std::vector<OptionRange> ranges(const Adagrad& adagrad) {
  return {
      {.name = "lr_decay", .value = adagrad.lr_decay},
      {.name = "weight_decay", .value = adagrad.weight_decay},
      {.name = "initial_accumulator_value", .value = adagrad.initial_accumulator_value},
      {.name = "eps", .value = adagrad.eps}};
}
std::vector<OptionRange> ranges(const RmsProp& rms) {
  return {
      {.name = "alpha", .value = rms.alpha},
      {.name = "eps", .value = rms.eps},
      {.name = "weight_decay", .value = rms.weight_decay},
      {.name = "momentum", .value = rms.momentum}};
}

void check_nesterov(const Sgd& sgd) {
  if (!std::isfinite(sgd.dampening))
    throw InvalidArgument(text(
        "[dist_autograd] expected Sgd with a finite dampening, got ",
        sgd.dampening,
        "; leave it at 0"));
  if (sgd.nesterov && (sgd.momentum == 0 || sgd.dampening != 0))
    throw InvalidArgument(text(
        "[dist_autograd] expected Sgd with momentum and without dampening for "
        "nesterov, got momentum ",
        sgd.momentum,
        " and dampening ",
        sgd.dampening,
        "; set momentum, or leave nesterov out"));
}

using Parameters = std::vector<at::Tensor>;
using OptimizerPointer = std::unique_ptr<torch::optim::Optimizer>;

OptimizerPointer make(const Sgd& sgd, const Parameters& parameters) {
  return std::make_unique<torch::optim::SGD>(
      parameters,
      torch::optim::SGDOptions(sgd.lr)
          .momentum(sgd.momentum)
          .dampening(sgd.dampening)
          .weight_decay(sgd.weight_decay)
          .nesterov(sgd.nesterov));
}
template <class Torch, class TorchOptions, class AnyAdam>
OptimizerPointer make_adam(const AnyAdam& adam, const Parameters& parameters) {
  return std::make_unique<Torch>(
      parameters,
      TorchOptions(adam.lr)
          .betas({adam.beta1, adam.beta2})
          .eps(adam.eps)
          .weight_decay(adam.weight_decay)
          .amsgrad(adam.amsgrad));
}
OptimizerPointer make(const Adam& adam, const Parameters& parameters) {
  return make_adam<torch::optim::Adam, torch::optim::AdamOptions>(adam, parameters);
}
OptimizerPointer make(const AdamW& adam, const Parameters& parameters) {
  return make_adam<torch::optim::AdamW, torch::optim::AdamWOptions>(adam, parameters);
}
OptimizerPointer make(const Adagrad& adagrad, const Parameters& parameters) {
  return std::make_unique<torch::optim::Adagrad>(
      parameters,
      torch::optim::AdagradOptions(adagrad.lr)
          .lr_decay(adagrad.lr_decay)
          .weight_decay(adagrad.weight_decay)
          .initial_accumulator_value(adagrad.initial_accumulator_value)
          .eps(adagrad.eps));
}
OptimizerPointer make(const RmsProp& rms, const Parameters& parameters) {
  return std::make_unique<torch::optim::RMSprop>(
      parameters,
      torch::optim::RMSpropOptions(rms.lr)
          .alpha(rms.alpha)
          .eps(rms.eps)
          .weight_decay(rms.weight_decay)
          .momentum(rms.momentum)
          .centered(rms.centered));
}

template <std::size_t... Index>
OptimizerKind read_kind(
    rpc::ValueReader& reader, std::size_t which, std::index_sequence<Index...>) {
  OptimizerKind kind;
  const bool known =
      ((which == Index &&
        (kind =
             rpc::read_value<std::variant_alternative_t<Index, OptimizerKind>>(reader),
         true)) ||
       ...);
  if (!known)
    throw InvalidArgument(text(
        "[dist_autograd] expected one of ",
        sizeof...(Index),
        " optimizers, got number ",
        which,
        "; start all workers with the same version"));
  return kind;
}

}  // namespace

std::string name_of(const OptimizerKind& kind) {
  static constexpr const char* kNames[] = {
      "Sgd", "Adam", "AdamW", "Adagrad", "RmsProp"};
  static_assert(std::size(kNames) == std::variant_size_v<OptimizerKind>);
  return kNames[kind.index()];
}

void check(const OptimizerKind& kind) {
  const std::string name = name_of(kind);
  check_range(name, {.name = "lr", .value = lr_of(kind), .above_from = true});
  std::visit(
      [&](const auto& options) {
        for (const OptionRange& option : ranges(options))
          check_range(name, option);
      },
      kind);
  if (const Sgd* sgd = std::get_if<Sgd>(&kind))
    check_nesterov(*sgd);
}

double lr_of(const OptimizerKind& kind) {
  return std::visit([](const auto& options) { return options.lr; }, kind);
}

bool takes_sparse(const OptimizerKind& kind) {
  if (const Sgd* sgd = std::get_if<Sgd>(&kind))
    return sgd->weight_decay == 0;
  if (const Adagrad* adagrad = std::get_if<Adagrad>(&kind))
    return adagrad->weight_decay == 0;
  return false;
}

std::vector<std::string> state_names(const OptimizerKind& kind) {
  std::vector<std::string> names;
  if (const Sgd* sgd = std::get_if<Sgd>(&kind)) {
    if (sgd->momentum != 0)
      names = {"momentum_buffer"};
  } else if (std::holds_alternative<Adagrad>(kind)) {
    names = {"step", "sum"};
  } else if (const RmsProp* rms = std::get_if<RmsProp>(&kind)) {
    names = {"step", "square_avg"};
    if (rms->momentum > 0)
      names.emplace_back("momentum_buffer");
    if (rms->centered)
      names.emplace_back("grad_avg");
  } else {
    names = {"step", "exp_avg", "exp_avg_sq"};
    const Adam* adam = std::get_if<Adam>(&kind);
    if (adam ? adam->amsgrad : std::get<AdamW>(kind).amsgrad)
      names.emplace_back("max_exp_avg_sq");
  }
  return names;
}

OptimizerPointer make_optimizer(
    const OptimizerKind& kind, const std::vector<at::Tensor>& parameters) {
  return std::visit(
      [&](const auto& options) { return make(options, parameters); }, kind);
}

}  // namespace trireme::dist_autograd

namespace trireme::rpc {

using dist_autograd::OptimizerKind;

void WireType<OptimizerKind>::write(ValueWriter& writer, const OptimizerKind& kind) {
  writer.bytes().u8(static_cast<std::uint8_t>(kind.index()));
  std::visit([&](const auto& options) { write_value(writer, options); }, kind);
}

OptimizerKind WireType<OptimizerKind>::read(ValueReader& reader) {
  const std::size_t which = reader.bytes().u8();
  OptimizerKind kind = dist_autograd::read_kind(
      reader, which, std::make_index_sequence<std::variant_size_v<OptimizerKind>>());
  dist_autograd::check(kind);
  return kind;
}

}  // namespace trireme::rpc
