#include "trireme/dp/clip_grad_norm.h"

#include <cmath>
#include <limits>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "small_net.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::run_world;

at::Tensor with_gradient(std::vector<double> gradient) {
  at::Tensor parameter =
      at::zeros({static_cast<int64_t>(gradient.size())}).set_requires_grad(true);
  parameter.mutable_grad() = at::tensor(gradient, at::kFloat);
  return parameter;
}

TEST(ClipGradNorm, ScalesWhatIsTooLong) {
  const at::Tensor a = with_gradient({3, 0});
  const at::Tensor b = with_gradient({0, 4});
  const at::Tensor none = at::zeros({2}).set_requires_grad(true);
  EXPECT_DOUBLE_EQ(clip_grad_norm(clipped({a, b, none}), {.max_norm = 10}), 5);
  EXPECT_TRUE(testing::same(a.grad(), at::tensor({3.F, 0.F}))) << "short enough";
  EXPECT_DOUBLE_EQ(clip_grad_norm(clipped({a, b, none}), {.max_norm = 1}), 5);
  EXPECT_NEAR(a.grad()[0].item<double>(), 0.6, 1e-6);
  EXPECT_NEAR(b.grad()[1].item<double>(), 0.8, 1e-6);
  EXPECT_FALSE(none.grad().defined());
}

TEST(ClipGradNorm, OtherNorms) {
  const double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor a = with_gradient({3, -4});
  EXPECT_DOUBLE_EQ(clip_grad_norm(clipped({a}), {.max_norm = 9, .norm_type = 1}), 7);
  EXPECT_DOUBLE_EQ(
      clip_grad_norm(clipped({a}), {.max_norm = 9, .norm_type = infinity}), 4);
  EXPECT_THROW(clip_grad_norm(clipped({a}), {.max_norm = 0}), InvalidArgument);
  EXPECT_THROW(clip_grad_norm(clipped({a}), {.norm_type = -1}), InvalidArgument);
}

TEST(ClipGradNorm, NotFinite) {
  const at::Tensor a = with_gradient({NAN, 1});
  EXPECT_TRUE(std::isnan(clip_grad_norm(clipped({a}))));
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(clip_grad_norm(clipped({a}), {.norm_type = infinity})));
  EXPECT_THROW(clip_grad_norm(clipped({a}), {.error_if_nonfinite = true}), Error);
}

TEST(ClipGradNormRanks, SquaresFromTheBuckets) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    DataParallel model(small_net(), group, {.norm = true});
    model(exact_batch(2, group.rank())).mean().backward();
    const double wanted =
        clip_grad_norm(clipped(model->parameters()), {.max_norm = 1e9});
    const auto parameters = clipped(model.replica().reducer());
    for (const ClippedParameter& one : parameters)
      EXPECT_TRUE(one.squares.has_value());
    EXPECT_NEAR(clip_grad_norm(parameters, {.max_norm = 1e-3}), wanted, 1e-6 * wanted);
    EXPECT_NEAR(
        clip_grad_norm(clipped(model->parameters()), {.max_norm = 1e9}), 1e-3, 1e-6);
    // What was changed since then is looked at again.
    EXPECT_NEAR(
        clip_grad_norm(clipped(model.replica().reducer()), {.max_norm = 1e9}),
        1e-3,
        1e-6);
  });
}

// Two stages with different parameters, each on two ranks; one parameter is tied, and
// has the whole gradient in both places.
TEST(ClipGradNormRanks, EveryParameterOfAMeshCountsOnce) {
  run_world(Backend::Local, 4, [](const comm::Group& world) {
    const comm::Mesh mesh(world, {{"dp", 2}, {"pp", 2}});
    const bool first = mesh.coordinate("pp") == 0;
    const at::Tensor own =
        with_gradient(first ? std::vector<double>{1, 2} : std::vector<double>{2});
    const at::Tensor tied = with_gradient({4});
    std::vector<ClippedParameter> parameters = clipped({own, tied});
    parameters[1].counts = first;
    const double norm = clip_grad_norm(mesh, parameters, {.max_norm = 2.5});
    EXPECT_NEAR(norm, 5, 1e-6);  // 1 + 4 + 4 + 16
    EXPECT_NEAR(tied.grad().item<double>(), 2, 1e-5) << "scaled in both places";
    // Along an axis that is not named, ranks have the same.
    EXPECT_NEAR(
        clip_grad_norm(mesh, clipped({tied}), {.max_norm = 99, .axes = {}}), 2, 1e-5);
  });
}

TEST(ClipGradNormRanks, DelayedParametersCount) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    for (const bool norm : {false, true}) {
      torch::nn::Linear net(2, 1);
      DataParallelOptions options;
      options.delay = {"weight"};
      options.norm = norm;
      DataParallel model(net, group, options);
      (model(at::full({1, 2}, 2.0F)) * (2 * group.rank())).sum().backward();
      model.replica().reduce_delayed();
      // The bias has 1, the weight 2 and 2.
      EXPECT_NEAR(clip_grad_norm(clipped(model.replica()), {.max_norm = 1.5}), 3, 1e-6);
      EXPECT_NEAR(net->weight.grad()[0][0].item<double>(), 1, 1e-5);
      EXPECT_NEAR(net->bias.grad()[0].item<double>(), 0.5, 1e-5);
    }
  });
}

}  // namespace
}  // namespace trireme::dp
