// The operations that random graphs are made of.
#pragma once
#include <cstdint>
#include <random>
#include <span>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "trireme/autograd/node.h"

namespace trireme::autograd {

/// Numbers from a seed, from no generator that others use.
class RandomNumbers {
 public:
  explicit RandomNumbers(uint64_t seed);
  /// From 0 to limit - 1.
  uint32_t below(size_t limit) { return static_cast<uint32_t>(numbers_() % limit); }
  at::Tensor normal(at::IntArrayRef sizes, at::ScalarType dtype = at::kDouble);

 private:
  std::mt19937 numbers_;
  at::Generator generator_;
};

/// Two tensors of 4 x 6 doubles, and weights as random_weights() makes them.
struct OpArguments {
  at::Tensor a;
  at::Tensor b;
  const variable_list& w;
  RandomNumbers& numbers;
};
/// Gives another tensor of 4 x 6.
using RandomOp = at::Tensor (*)(const OpArguments&);

std::span<const RandomOp> random_ops();
/// Whether backward runs what lies below it with an undefined gradient.
bool gives_undefined(RandomOp op);
variable_list random_weights(RandomNumbers& numbers);

}  // namespace trireme::autograd
