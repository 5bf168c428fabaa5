#include "models.h"

#include <random>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::dp {

at::Tensor whole_numbers(at::IntArrayRef sizes, uint64_t seed, c10::ScalarType dtype) {
  std::mt19937_64 random(seed);
  at::Tensor numbers = at::empty(sizes, at::kDouble);
  auto* values = numbers.mutable_data_ptr<double>();
  for (int64_t i = 0; i < numbers.numel(); ++i)
    values[i] = static_cast<double>(random() % 5) - 2;
  return numbers.to(dtype);
}

at::Tensor rows_of(const at::Tensor& batch, const comm::Group& group) {
  const int64_t rows = batch.size(0) / group.size();
  return batch.narrow(0, rows * group.rank(), rows);
}

Blocks::Blocks(int count, int64_t width, c10::ScalarType dtype, int seed) {
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<uint64_t>(1000 * seed + 2 * i);
    weights_.push_back(
        register_parameter(text("w", i), whole_numbers({width, width}, at, dtype)));
    biases_.push_back(
        register_parameter(text("b", i), whole_numbers({width}, at + 1, dtype)));
  }
}

at::Tensor Blocks::block(int index, const at::Tensor& x) const {
  return at::relu(at::matmul(x, weight(index))) + bias(index);
}

at::Tensor Blocks::forward(const at::Tensor& x, const std::vector<int>& path) const {
  at::Tensor y = x;
  for (const int index : path)
    y = block(index, y);
  return y;
}

at::Tensor Blocks::forward(const at::Tensor& x) const {
  at::Tensor y = x;
  for (int i = 0; i < count(); ++i)
    y = block(i, y);
  return y;
}

std::shared_ptr<Blocks> copy_of(const Blocks& blocks) {
  const at::Tensor& first = blocks.weight(0);
  auto copy =
      std::make_shared<Blocks>(blocks.count(), first.size(0), first.scalar_type());
  for (size_t i = 0; i < blocks.parameters().size(); ++i)
    copy->parameters()[i].data().copy_(blocks.parameters()[i].data());
  return copy;
}

void drop_gradients(const torch::nn::Module& module) {
  for (at::Tensor& parameter : module.parameters())
    parameter.mutable_grad() = at::Tensor();
}

void descend(const torch::nn::Module& module, double rate) {
  for (const at::Tensor& parameter : module.parameters())
    if (parameter.grad().defined())
      parameter.data().sub_(parameter.grad().detach() * rate);
}

void add_to(const at::Tensor& parameter, double value) {
  parameter.data().add_(value);
}

void expect_same_values(const torch::nn::Module& got, const torch::nn::Module& wanted) {
  const auto parameters = got.named_parameters();
  for (const auto& parameter : wanted.named_parameters())
    EXPECT_TRUE(
        testing::same(parameters[parameter.key()].detach(), parameter.value().detach()))
        << parameter.key();
}

void expect_same_gradients(
    const torch::nn::Module& got, const torch::nn::Module& wanted) {
  const auto parameters = got.named_parameters();
  for (const auto& parameter : wanted.named_parameters()) {
    const at::Tensor gradient = parameters[parameter.key()].grad();
    const at::Tensor& its = parameter.value().grad();
    EXPECT_EQ(gradient.defined(), its.defined()) << parameter.key();
    if (gradient.defined() && its.defined()) {
      EXPECT_TRUE(testing::same(gradient.detach(), its.detach())) << parameter.key();
    }
  }
}

}  // namespace trireme::dp
