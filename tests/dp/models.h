// Small models for the tests of dp, with torch's base of modules alone. Their values
// are small whole numbers, so that sums are exact in any order.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "trireme/comm/group.h"

namespace trireme::dp {

/// Whole numbers from -2 to 2, always the same.
at::Tensor whole_numbers(
    at::IntArrayRef sizes, uint64_t seed, c10::ScalarType dtype = at::kDouble);

/// This rank's rows of a batch.
at::Tensor rows_of(const at::Tensor& batch, const comm::Group& group);

/// Blocks 0, 1, 2 and so on with weights w0, w1 and biases b0, b1: each is
/// relu(x w) + b.
class Blocks : public torch::nn::Module {
 public:
  explicit Blocks(
      int count, int64_t width = 4, c10::ScalarType dtype = at::kDouble, int seed = 1);
  /// One block, some in order, or all.
  at::Tensor block(int index, const at::Tensor& x) const;
  at::Tensor forward(const at::Tensor& x, const std::vector<int>& path) const;
  at::Tensor forward(const at::Tensor& x) const;
  const at::Tensor& weight(int index) const {
    return weights_[static_cast<size_t>(index)];
  }
  const at::Tensor& bias(int index) const {
    return biases_[static_cast<size_t>(index)];
  }
  int count() const { return static_cast<int>(weights_.size()); }

 private:
  std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> biases_;
};

/// Another one with the same values.
std::shared_ptr<Blocks> copy_of(const Blocks& blocks);

/// Takes the gradients away.
void drop_gradients(const torch::nn::Module& module);
/// p -= rate * gradient; leaves alone what has none.
void descend(const torch::nn::Module& module, double rate);
/// p.data += value, unseen by autograd.
void add_to(const at::Tensor& parameter, double value);

/// Fails unless all values, or all gradients, have the same bits; both may be
/// undefined.
void expect_same_values(const torch::nn::Module& got, const torch::nn::Module& wanted);
void expect_same_gradients(
    const torch::nn::Module& got, const torch::nn::Module& wanted);

}  // namespace trireme::dp
