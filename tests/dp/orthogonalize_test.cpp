#include "trireme/dp/orthogonalize.h"

#include <cmath>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

namespace trireme::dp {
namespace {

at::Tensor random_matrix(int64_t rows, int64_t columns, c10::ScalarType dtype) {
  at::Tensor matrix = at::empty({rows, columns}, dtype);
  fill_uniform(matrix.view({-1}), {.seed = 5});
  return matrix;
}

double off_identity(const at::Tensor& rows) {
  const at::Tensor product = at::mm(rows, rows.t());
  return (product - at::eye(rows.size(0), product.options()))
      .abs()
      .max()
      .item<double>();
}

TEST(Orthogonalize, RowsBecomeOrthonormal) {
  for (const int64_t length : {8, 61, 1000})
    for (const int64_t count : {1, 3, 8}) {
      const at::Tensor rows = random_matrix(count, length, at::kFloat);
      orthogonalize(rows, 0);
      EXPECT_LT(off_identity(rows), 1e-5);
      const at::Tensor wide = random_matrix(count, length, at::kDouble);
      orthogonalize(wide, 0);
      EXPECT_LT(off_identity(wide), 1e-13);
    }
}

TEST(Orthogonalize, NearlyDependentRowsToo) {
  const at::Tensor rows = random_matrix(4, 100, at::kFloat);
  for (int64_t i = 1; i < 4; ++i)
    rows.select(0, i).mul_(1e-4).add_(rows.select(0, 0));
  orthogonalize(rows, 0);
  EXPECT_LT(off_identity(rows), 1e-4);
}

TEST(Orthogonalize, RowsWithoutDirectionBecomeZeroOrOthers) {
  const auto make = [] {
    at::Tensor rows = random_matrix(4, 32, at::kFloat);
    rows.select(0, 1).copy_(rows.select(0, 0) * 2);
    rows.select(0, 2).zero_();
    rows.select(0, 3).fill_(std::nan(""));
    return rows;
  };
  const at::Tensor zeroed = make();
  orthogonalize(zeroed, 0);
  EXPECT_NEAR(zeroed.select(0, 0).norm().item<double>(), 1, 1e-6);
  EXPECT_TRUE((zeroed.narrow(0, 1, 3) == 0).all().item<bool>());
  const at::Tensor filled = make();
  orthogonalize(filled, 0, [](const at::Tensor& row, int64_t index) {
    fill_uniform(row, {.seed = 1, .c = static_cast<uint32_t>(index)});
  });
  EXPECT_LT(off_identity(filled), 1e-5);
}

TEST(Orthogonalize, EpsilonMakesRowsShorter) {
  const at::Tensor rows = at::ones({1, 4}, at::kFloat);
  orthogonalize(rows, 2);
  EXPECT_NEAR(rows.norm().item<double>(), 0.5, 1e-6);
}

TEST(Orthogonalize, StreamsDiffer) {
  const auto draw = [](const StreamId& stream) {
    at::Tensor numbers = at::empty({1001}, at::kFloat);
    fill_uniform(numbers, stream);
    return numbers;
  };
  const at::Tensor first = draw({.seed = 1, .a = 2, .b = 3, .c = 4});
  EXPECT_TRUE(first.equal(draw({.seed = 1, .a = 2, .b = 3, .c = 4})));
  EXPECT_NEAR(first.mean().item<double>(), 0, 0.1);
  EXPECT_NEAR(first.std().item<double>(), std::sqrt(1.0 / 3), 0.05);
  for (const StreamId& other :
       {StreamId{.seed = 2, .a = 2, .b = 3, .c = 4},
        StreamId{.seed = 1 + (uint64_t{1} << 32), .a = 2, .b = 3, .c = 4},
        StreamId{.seed = 1, .a = 1, .b = 3, .c = 4},
        StreamId{.seed = 1, .a = 2, .b = 1, .c = 4},
        StreamId{.seed = 1, .a = 2, .b = 3, .c = 1}})
    EXPECT_FALSE(first.equal(draw(other)));
}

}  // namespace
}  // namespace trireme::dp
