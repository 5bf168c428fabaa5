#include "trireme/dist_autograd/row_optimizer.h"

#include <cmath>
#include <memory>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/sgd.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"

namespace trireme::dist_autograd {
namespace {

// Gradients of three steps: rows 1 and 4, rows 4 and 2, row 1.
at::Tensor gradient_of_step(int step) {
  const at::Tensor ids = step == 0   ? at::tensor({1, 4}, at::kLong)
                         : step == 1 ? at::tensor({2, 4}, at::kLong)
                                     : at::tensor({1}, at::kLong);
  at::manual_seed(100 + step);
  return at::sparse_coo_tensor(ids.view({1, -1}), at::randn({ids.numel(), 3}), {6, 3})
      .coalesce();
}

at::Tensor first_rows() {
  at::manual_seed(7);
  return at::randn({6, 3});
}

at::Tensor rows_after_three(const RowOptimizerOptions& options, double lr) {
  at::Tensor rows = first_rows();
  RowOptimizer optimizer(options, rows);
  for (int step = 0; step < 3; ++step)
    optimizer.step(rows, gradient_of_step(step), lr);
  EXPECT_EQ(optimizer.steps(), 3);
  return rows;
}

template <class Optimizer, class Options>
at::Tensor rows_of_torch(const Options& options) {
  at::Tensor rows = first_rows().set_requires_grad(true);
  Optimizer optimizer({rows}, options);
  for (int step = 0; step < 3; ++step) {
    rows.mutable_grad() = gradient_of_step(step);
    optimizer.step();
  }
  return rows.detach();
}

void expect_close(const at::Tensor& got, const at::Tensor& expected) {
  EXPECT_TRUE(at::allclose(got, expected, 1.3e-6, 1e-6)) << got << "\n" << expected;
}

TEST(RowOptimizer, SgdAsTorch) {
  expect_close(
      rows_after_three({.rule = RowRule::SGD}, 0.3),
      rows_of_torch<torch::optim::SGD>(torch::optim::SGDOptions(0.3)));
}

TEST(RowOptimizer, AdagradAsTorch) {
  expect_close(
      rows_after_three({.rule = RowRule::Adagrad, .eps = 1e-10}, 0.3),
      rows_of_torch<torch::optim::Adagrad>(
          torch::optim::AdagradOptions(0.3).eps(1e-10)));
}

// As torch/optim/_functional.py has sparse_adam: C++ has no SparseAdam.
TEST(RowOptimizer, AdamAsSparseAdam) {
  at::Tensor rows = first_rows();
  at::Tensor mean = at::zeros({6, 3}), square = at::zeros({6, 3});
  for (int step = 1; step <= 3; ++step) {
    const at::Tensor g = gradient_of_step(step - 1);
    for (std::int64_t i = 0; i < g._nnz(); ++i) {
      const auto row = g.indices()[0][i].item<std::int64_t>();
      const at::Tensor value = g.values()[i];
      mean[row].add_((value - mean[row]) * (1 - 0.8));
      square[row].add_((value * value - square[row]) * (1 - 0.95));
      const double size =
          0.3 * std::sqrt(1 - std::pow(0.95, step)) / (1 - std::pow(0.8, step));
      rows[row].sub_(size * mean[row] / (square[row].sqrt() + 1e-8));
    }
  }
  expect_close(
      rows_after_three({.rule = RowRule::Adam, .beta1 = 0.8, .beta2 = 0.95}, 0.3),
      rows);
}

TEST(RowOptimizer, NoOtherRowChanges) {
  for (const RowRule rule : {RowRule::SGD, RowRule::Adagrad, RowRule::Adam}) {
    at::Tensor rows = first_rows();
    RowOptimizer optimizer({.rule = rule}, rows);
    optimizer.step(rows, gradient_of_step(0), 0.1);
    const at::Tensor changed = (rows != first_rows()).any(1);
    EXPECT_TRUE(
        at::equal(changed, at::tensor({0, 1, 0, 0, 1, 0}, at::kLong).to(at::kBool)));
    for (const auto& [name, state] : optimizer.states())
      EXPECT_TRUE(at::equal((state != 0).any(1), changed)) << name;
  }
}

// The bias correction goes by all steps, so it does not matter which server has rows.
TEST(RowOptimizer, AStepWithoutGradientCounts) {
  at::Tensor rows = first_rows(), other = first_rows();
  RowOptimizer one({.rule = RowRule::Adam}, rows), two({.rule = RowRule::Adam}, other);
  one.step(rows, {}, 0.1);
  EXPECT_TRUE(at::equal(rows, other));
  EXPECT_EQ(one.steps(), 1);
  one.step(rows, gradient_of_step(0), 0.1);
  two.step(other, gradient_of_step(0), 0.1);
  EXPECT_FALSE(at::equal(rows, other));
  two = RowOptimizer({.rule = RowRule::Adam}, other);
  two.set_steps(1);
  at::Tensor again = first_rows();
  two.step(again, gradient_of_step(0), 0.1);
  EXPECT_TRUE(at::equal(rows, again));
}

TEST(RowOptimizer, OptionsThatCannotBe) {
  const auto complaint = [](const RowOptimizerOptions& options) {
    return testing::message_of<InvalidArgument>([&] { check_options(options); });
  };
  using testing::contains;
  EXPECT_TRUE(contains(complaint({.rule = static_cast<RowRule>(7)}), "got rule 7"));
  EXPECT_TRUE(contains(complaint({.beta1 = 1}), "beta1"));
  EXPECT_TRUE(contains(complaint({.beta2 = -0.1}), "beta2"));
  EXPECT_TRUE(contains(complaint({.eps = std::nan("")}), "eps"));
}

}  // namespace
}  // namespace trireme::dist_autograd
