#include "trireme/dp/data_parallel.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::run_world;

TEST(DataParallelRanks, Smoke) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 2, [](const comm::Group& group) {
      torch::manual_seed(1);
      torch::nn::Sequential net(
          torch::nn::Linear(4, 8), torch::nn::Linear(8, 8), torch::nn::Linear(8, 1));
      torch::nn::Sequential whole(
          torch::nn::Linear(4, 8), torch::nn::Linear(8, 8), torch::nn::Linear(8, 1));
      DataParallel model(net, group, {.bucket_bytes = 64, .first_bucket_bytes = 64});
      for (size_t i = 0; i < whole->parameters().size(); ++i)
        whole->parameters()[i].data().copy_(net->parameters()[i].data());
      const at::Tensor x = at::arange(16, at::kFloat).view({4, 4}) / 16;
      for (int step = 0; step < 3; ++step) {
        model.forward(x.narrow(0, 2 * group.rank(), 2)).mean().backward();
        whole->forward(x).mean().backward();
        for (size_t i = 0; i < whole->parameters().size(); ++i)
          EXPECT_TRUE(
              at::allclose(net->parameters()[i].grad(), whole->parameters()[i].grad()))
              << i;
        net->zero_grad();
        whole->zero_grad();
      }
    });
}

}  // namespace
}  // namespace trireme::dp
