// A small model for tests of data parallelism, and its batches.
#pragma once
#include <vector>

#include <ATen/ATen.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

namespace trireme::dp {

inline constexpr int64_t kInputs = 4;

/// The same on every rank and in every call; not from torch's generator, which ranks
/// that are threads share.
inline torch::nn::Sequential small_net() {
  torch::nn::Sequential net(
      torch::nn::Linear(kInputs, 8), torch::nn::Linear(8, 8), torch::nn::Linear(8, 1));
  const at::NoGradGuard no_grad;
  int64_t number = 0;
  for (at::Tensor& parameter : net->parameters())
    parameter.copy_(
        (at::arange(parameter.numel(), at::kFloat).add(++number).remainder(5) - 2)
            .div(8)
            .view(parameter.sizes()));
  return net;
}

/// Whole numbers and quarters: sums of these have no rounding.
inline at::Tensor exact_batch(int64_t rows, int64_t number = 0) {
  return (at::arange(rows * kInputs, at::kFloat).view({rows, kInputs}) + number)
             .remainder(7) /
         4;
}

inline std::vector<at::Tensor> gradients_of(const torch::nn::Module& module) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& parameter : module.parameters())
    all.push_back(parameter.grad());
  return all;
}

}  // namespace trireme::dp
