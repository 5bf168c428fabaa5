#include "trireme/model/activation.h"

#include <array>
#include <utility>

#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>

#include "trireme/core/error.h"

namespace trireme::model {
namespace {

constexpr std::array<std::pair<const char*, Activation>, 6> kNames{{
    {"gelu", Activation::Gelu},
    {"gelu_new", Activation::GeluTanh},
    {"gelu_pytorch_tanh", Activation::GeluTanh},
    {"relu", Activation::Relu},
    {"silu", Activation::Silu},
    {"swish", Activation::Silu},
}};

}  // namespace

std::optional<Activation> find_activation(const std::string& name) {
  for (const auto& [known, activation] : kNames)
    if (name == known)
      return activation;
  return std::nullopt;
}

std::string activation_names() {
  std::string out;
  for (const auto& [known, activation] : kNames)
    out += text(out.empty() ? "" : ", ", known);
  return out;
}

at::Tensor activate(const at::Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::Gelu:
      return at::gelu(x);
    case Activation::GeluTanh:
      return at::gelu(x, "tanh");
    case Activation::Relu:
      return at::relu(x);
    case Activation::Silu:
      return at::silu(x);
  }
  throw InternalError("[model] an activation without a function");
}

}  // namespace trireme::model
