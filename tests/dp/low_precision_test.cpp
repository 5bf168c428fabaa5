#include "trireme/dp/low_precision.h"

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

TEST(LowPrecision, ParametersAreCopiesForAWhile) {
  const at::Tensor w = at::full({2}, 0.3).set_requires_grad(true);
  const at::Tensor count = at::ones({1}, at::kLong);
  at::Tensor y;
  {
    const LowPrecisionScope scope({{"w", w}}, at::kBFloat16);
    EXPECT_EQ(w.scalar_type(), at::kBFloat16);
    y = w.mul(2).sum();
  }
  EXPECT_EQ(w.scalar_type(), at::kFloat);
  EXPECT_EQ(w[0].item<float>(), 0.3F);
  y.backward();
  EXPECT_EQ(w.grad().to(at::kFloat)[0].item<float>(), 2);
  EXPECT_EQ(cast_floating(count, at::kBFloat16).scalar_type(), at::kLong);
  EXPECT_FALSE(cast_floating({}, at::kBFloat16).defined());
}

void trains_in_bfloat16(const comm::Group& group, c10::ScalarType reduction) {
  DataParallel model(
      small_net(),
      group,
      {.bucket_bytes = 64,
       .first_bucket_bytes = 64,
       .mixed_precision = {.parameters = at::kBFloat16, .reduction = reduction}});
  auto alone = small_net();
  for (int step = 0; step < 3; ++step) {
    const at::Tensor output = model(exact_batch(2, group.rank()));
    EXPECT_EQ(output.scalar_type(), at::kBFloat16);
    for (const at::Tensor& parameter : model->parameters())
      EXPECT_EQ(parameter.scalar_type(), at::kFloat);
    output.mean().backward();
    alone->forward(at::cat({exact_batch(2, 0), exact_batch(2, 1)})).mean().backward();
    for (size_t i = 0; i < alone->parameters().size(); ++i) {
      const at::Tensor got = model->parameters()[i].grad();
      EXPECT_EQ(got.scalar_type(), at::kFloat);
      // bfloat16 has eight bits.
      EXPECT_TRUE(at::allclose(got, alone->parameters()[i].grad(), 0.03, 0.03)) << i;
    }
    model->zero_grad();
    alone->zero_grad();
  }
}

TEST(LowPrecisionRanks, GradientsComeToTheFullParameters) {
  for (const auto reduction : {at::kFloat, at::kBFloat16})
    run_world(Backend::Local, 2, [&](const comm::Group& group) {
      trains_in_bfloat16(group, reduction);
    });
}

TEST(LowPrecisionRanks, UnusedParameters) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    torch::nn::Sequential net(torch::nn::Linear(kInputs, 2));
    net->register_module("other", torch::nn::Linear(2, 2));
    DataParallel model(
        net,
        group,
        {.find_unused = true, .mixed_precision = {.parameters = at::kBFloat16}});
    model(exact_batch(2)).sum().backward();
    EXPECT_TRUE(net->parameters()[0].grad().defined());
    EXPECT_FALSE(net->parameters()[2].grad().defined());
  });
}

}  // namespace
}  // namespace trireme::dp
