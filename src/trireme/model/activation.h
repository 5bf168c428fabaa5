// The activation functions that configs name.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

namespace trireme::model {

enum class Activation : uint8_t { Gelu, GeluTanh, Relu, Silu };

/// By Hugging Face's names: gelu, gelu_new (and gelu_pytorch_tanh), relu, silu (and
/// swish). Nothing if it is none of them.
std::optional<Activation> find_activation(const std::string& name);
/// For messages: "gelu, gelu_new, …".
std::string activation_names();

at::Tensor activate(const at::Tensor& x, Activation activation);

}  // namespace trireme::model
