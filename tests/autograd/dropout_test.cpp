#include "trireme/autograd/dropout.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/autograd/executor.h"
#include "trireme/autograd/random_stream.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::autograd {
namespace {

using torch::autograd::impl::gradient_edge;

constexpr uint64_t kLayer = 11;

at::Tensor drop(const at::Tensor& x, RandomContext context, double p = 0.25) {
  const RandomScope scope(context);
  return dropout(x, p, kLayer, true);
}

TEST(Dropout, DrawsTheSameForEveryLayout) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    const at::Tensor x = at::randn({8, 5, 33}).to(dtype);
    const at::Tensor whole = drop(x, {.seed = 1, .step = 2, .first_sample = 24});
    EXPECT_EQ(whole.scalar_type(), dtype);
    for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{
             {1, 1, 1, 1, 1, 1, 1, 1}, {3, 5}, {2, 4, 2}}) {
      variable_list parts;
      uint64_t first = 24;
      for (const at::Tensor& part : x.split_with_sizes(sizes)) {
        parts.push_back(drop(part, {.seed = 1, .step = 2, .first_sample = first}));
        first += static_cast<uint64_t>(part.size(0));
      }
      EXPECT_TRUE(testing::same(at::cat(parts), whole));
    }
  }
}

TEST(Dropout, KnowsSamplesThatShareADim) {
  const at::Tensor x = at::randn({8, 5, 33});
  const at::Tensor whole = drop(x, {.seed = 1});
  const at::Tensor flat = drop(x.view({40, 33}), {.seed = 1, .samples = 8});
  EXPECT_TRUE(testing::same(flat.view({8, 5, 33}), whole));
  EXPECT_TRUE(testing::contains(
      testing::message_of<InvalidArgument>([&] { drop(x, {.samples = 7}); }),
      "expected dropout of a tensor whose first dim holds 7 samples, got the shape [8, "
      "5, 33]"));
  // Enough elements, but the samples are not in the first dim.
  EXPECT_THROW(drop(x.transpose(0, 1), {.samples = 8}), InvalidArgument);
}

TEST(Dropout, FindsTheSamplesInAnotherDim) {
  const at::Tensor x = at::randn({5, 8, 33}).set_requires_grad(true);
  for (const int64_t samples : {0, 8}) {
    const RandomContext context{.seed = 1, .first_sample = 3, .samples = samples};
    const at::Tensor wanted = drop(x.detach().transpose(0, 1), context);
    const RandomScope scope(context);
    const at::Tensor y = dropout(x, 0.25, kLayer, true, 1);
    EXPECT_TRUE(testing::same(y, wanted.transpose(0, 1)));
    EXPECT_TRUE(testing::same(dropout(x, 0.25, kLayer, true, -2), y));
    torch::autograd::backward({y.sum()});
    EXPECT_TRUE(at::equal(x.grad().ne(0), y.detach().ne(0)));
    x.mutable_grad() = at::Tensor();
  }
}

TEST(Dropout, DrawsAnotherMaskForAnything) {
  const at::Tensor x = at::ones({4, 100});
  const at::Tensor first = drop(x, {});
  EXPECT_FALSE(at::equal(first, drop(x, {.seed = 1})));
  EXPECT_FALSE(at::equal(first, drop(x, {.step = 1})));
  EXPECT_FALSE(at::equal(first, drop(x, {.first_sample = 4})));
  EXPECT_TRUE(at::equal(first[1], drop(x, {.first_sample = 1})[0]));
  EXPECT_FALSE(at::equal(first[0], first[1]));
  const RandomScope scope(RandomContext{});
  EXPECT_FALSE(at::equal(first, dropout(x, 0.25, kLayer + 1, true)));
}

TEST(Dropout, KeepsMeanAndShare) {
  for (const double p : {0.1, 0.5, 0.9}) {
    const at::Tensor y = drop(at::ones({1000, 1000}, at::kDouble), {.seed = 5}, p);
    const double sigma = std::sqrt(p * (1 - p) / 1e6);
    EXPECT_NEAR(y.eq(0).to(at::kDouble).mean().item<double>(), p, 5 * sigma);
    EXPECT_NEAR(y.mean().item<double>(), 1, 5 * sigma / (1 - p));
    EXPECT_NEAR(y.var().item<double>(), p / (1 - p), 0.02 * p / (1 - p));
    EXPECT_DOUBLE_EQ(y.max().item<double>(), 1 / (1 - p));
    // Neighbours in a row and in a column know nothing of one another.
    const at::Tensor z = (y - 1) / std::sqrt(p / (1 - p));
    const auto product = [&](int64_t dim) {
      return (z.narrow(dim, 0, 999) * z.narrow(dim, 1, 999)).mean().item<double>();
    };
    EXPECT_NEAR(product(0), 0, 5e-3);
    EXPECT_NEAR(product(1), 0, 5e-3);
  }
}

TEST(Dropout, DoesNothingWhereThereIsNothingToDo) {
  const at::Tensor x = at::randn({4, 3}).set_requires_grad(true);
  EXPECT_TRUE(dropout(x, 0.5, kLayer, false).is_same(x));  // and needs no scope
  EXPECT_TRUE(dropout(x, 0, kLayer, true).is_same(x));
  const at::Tensor y = dropout(x / 0, 1, kLayer, true);
  EXPECT_TRUE(testing::same(y, at::zeros({4, 3})));
  torch::autograd::backward({y.sum()});
  EXPECT_TRUE(drop(at::ones({0, 3}), {}).numel() == 0);
  EXPECT_EQ(drop(at::ones({}), {}).dim(), 0);
  EXPECT_EQ(drop(at::ones({3, 0}), {.samples = 3}).numel(), 0);
}

TEST(Dropout, SendsGradientsThroughTheSameMask) {
  const at::Tensor x = at::randn({6, 50}).set_requires_grad(true);
  const RandomContext context{.seed = 3, .first_sample = 9};
  const at::Tensor y = drop(x, context);
  EXPECT_TRUE(testing::same(y, drop(x.detach(), context)));
  const at::Tensor gradient = at::randn({50, 6}).t();
  Executor().backward({{gradient_edge(y)}, {gradient}}, {});
  EXPECT_TRUE(testing::same(x.grad(), drop(gradient, context)));
  // A second time, since nothing is saved; and twice differentiable.
  x.mutable_grad() = at::Tensor();
  const at::Tensor once =
      torch::autograd::grad({drop(x.square(), context).sum()}, {x}, {}, true, true)[0];
  const at::Tensor twice = torch::autograd::grad({once.sum()}, {x})[0];
  EXPECT_TRUE(at::allclose(twice, drop(at::full({6, 50}, 2.0), context)));
}

TEST(Dropout, TakesTensorsThatLieOtherwise) {
  const at::Tensor x = at::randn({33, 8}).t();
  EXPECT_TRUE(testing::same(drop(x, {}), drop(x.contiguous(), {})));
}

TEST(Dropout, RefusesWhatItCannotDo) {
  const at::Tensor x = at::ones({3});
  EXPECT_EQ(
      testing::message_of<InvalidArgument>([&] { dropout(x, 0.5, kLayer, true); }),
      "[autograd] expected a random context for dropout in training, got none; make a "
      "RandomScope with seed, step and first sample around the forward");
  for (const double p : {-0.1, 1.1, std::nan("")})
    EXPECT_TRUE(testing::contains(
        testing::message_of<InvalidArgument>([&] { dropout(x, p, kLayer, true); }),
        "expected a dropout probability from 0 to 1"));
  EXPECT_TRUE(testing::contains(
      testing::message_of<InvalidArgument>([&] { drop(at::ones({3}, at::kLong), {}); }),
      "got Long"));
}

}  // namespace
}  // namespace trireme::autograd
