// Which optimizer, with its options.
#pragma once
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/rpc/wire_numbers.h"
#include "trireme/rpc/wire_struct.h"

namespace torch::optim {
class Optimizer;
}

namespace trireme::dist_autograd {

/// Options as torch's optimizers have them, with the same defaults.
///
///     Sgd{.lr = 0.1, .momentum = 0.9, .nesterov = true}
struct Sgd {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};
struct Adam {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
};
struct AdamW {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
};
struct Adagrad {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
};
struct RmsProp {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
};
using OptimizerKind = std::variant<Sgd, Adam, AdamW, Adagrad, RmsProp>;

/// "Sgd", "Adam" …
std::string name_of(const OptimizerKind& kind);
/// InvalidArgument for options that cannot be: a rate of 0, a factor of 2.
void check(const OptimizerKind& kind);
double lr_of(const OptimizerKind& kind);
/// Whether it steps by sparse gradients.
bool takes_sparse(const OptimizerKind& kind);
/// What it keeps of each parameter that it has stepped: "exp_avg", "step" …
std::vector<std::string> state_names(const OptimizerKind& kind);

/// One of torch's, for parameters that are stepped alike.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(
    const OptimizerKind& kind, const std::vector<at::Tensor>& parameters);

}  // namespace trireme::dist_autograd

namespace trireme::rpc {

template <>
struct Fields<dist_autograd::Sgd> {
  using Sgd = dist_autograd::Sgd;
  static constexpr auto name = "trireme.Sgd";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(
      &Sgd::lr, &Sgd::momentum, &Sgd::dampening, &Sgd::weight_decay, &Sgd::nesterov);
};
template <>
struct Fields<dist_autograd::Adam> {
  using Adam = dist_autograd::Adam;
  static constexpr auto name = "trireme.Adam";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(
      &Adam::lr,
      &Adam::beta1,
      &Adam::beta2,
      &Adam::eps,
      &Adam::weight_decay,
      &Adam::amsgrad);
};
template <>
struct Fields<dist_autograd::AdamW> {
  using AdamW = dist_autograd::AdamW;
  static constexpr auto name = "trireme.AdamW";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(
      &AdamW::lr,
      &AdamW::beta1,
      &AdamW::beta2,
      &AdamW::eps,
      &AdamW::weight_decay,
      &AdamW::amsgrad);
};
template <>
struct Fields<dist_autograd::Adagrad> {
  using Adagrad = dist_autograd::Adagrad;
  static constexpr auto name = "trireme.Adagrad";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(
      &Adagrad::lr,
      &Adagrad::lr_decay,
      &Adagrad::weight_decay,
      &Adagrad::initial_accumulator_value,
      &Adagrad::eps);
};
template <>
struct Fields<dist_autograd::RmsProp> {
  using RmsProp = dist_autograd::RmsProp;
  static constexpr auto name = "trireme.RmsProp";
  static constexpr int version = 1;
  static constexpr auto members = std::tuple(
      &RmsProp::lr,
      &RmsProp::alpha,
      &RmsProp::eps,
      &RmsProp::weight_decay,
      &RmsProp::momentum,
      &RmsProp::centered);
};
/// Options that cannot be are refused where they are read.
template <>
struct WireType<dist_autograd::OptimizerKind> {
  static void write(ValueWriter& writer, const dist_autograd::OptimizerKind& kind);
  static dist_autograd::OptimizerKind read(ValueReader& reader);
  static std::string name() { return "optimizer"; }
};

}  // namespace trireme::rpc
