#include "trireme/dp/data_parallel.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "trireme/core/log.h"
#include "trireme/dp/comm_hook.h"
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

DataParallelOptions delaying(std::vector<std::string> names) {
  DataParallelOptions options;
  options.delay = std::move(names);
  return options;
}

TEST(DataParallelRanks, DelayedParametersWaitToBeReduced) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    torch::nn::Linear net(2, 1);
    {
      const at::NoGradGuard no_grad;
      net->weight.fill_(group.rank() + 1);
    }
    DataParallel model(net, group, delaying({"weight"}));
    EXPECT_EQ(net->weight[0][0].item<float>(), 1) << "made equal at the start";
    (model(at::ones({1, 2})) * (group.rank() + 1)).sum().backward();
    EXPECT_EQ(net->bias.grad().item<float>(), 1.5);
    EXPECT_EQ(net->weight.grad()[0][0].item<float>(), group.rank() + 1);
    model.replica().reduce_delayed();
    EXPECT_EQ(net->weight.grad()[0][0].item<float>(), 1.5);
  });
  run_world(Backend::Local, 1, [](const comm::Group& group) {
    torch::nn::Linear net(2, 1);
    EXPECT_THROW(DataParallel(net, group, delaying({"none"})), InvalidArgument);
    EXPECT_THROW(
        DataParallel(net, group, delaying({"weight", "bias"})), InvalidArgument);
    DataParallel model(net, group);
    EXPECT_THROW(model.replica().reduce_delayed(), InvalidArgument);
  });
}

// A step with gradients that nobody has reduced lets ranks drift apart.
TEST(DataParallelRanks, DelayedGradientsThatAreClearedAreWarnedOf) {
  run_world(Backend::Shm, 2, [](const comm::Group& group) {
    std::vector<std::string> lines;
    const auto scope =
        set_log_sink([&](std::string_view line) { lines.emplace_back(line); });
    torch::nn::Linear net(2, 1);
    DataParallel model(net, group, delaying({"weight"}));
    const auto step = [&](bool reduces) {
      model(at::ones({1, 2})).sum().backward();
      if (reduces)
        model.replica().reduce_delayed();
      net->zero_grad();
    };
    step(true);
    step(true);
    step(false);
    EXPECT_TRUE(lines.empty());
    step(true);
    step(false);
    ASSERT_EQ(lines.size(), 1u) << "once";
    EXPECT_TRUE(testing::contains(lines[0], "reduce_delayed()")) << lines[0];
    EXPECT_TRUE(testing::contains(lines[0], "weight")) << lines[0];
  });
}

// What only one rank can see is told to all, and the group goes on.
TEST(DataParallelRanks, AMistakeOfOneRankReachesAll) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    torch::nn::Linear net(2, 1);
    DataParallelOptions options;
    if (group.rank() == 1)
      options.ignore = {"nothing"};
    if (group.rank() == 1)
      EXPECT_THROW(DataParallel(net, group, options), InvalidArgument);
    else
      EXPECT_THROW(DataParallel(net, group, options), PeerError);
    DataParallel model(net, group);
    model(at::ones({1, 2})).sum().backward();
  });
}

// Gradients times their weights need not fit into float16, but their mean does.
TEST(DataParallelRanks, LargeWeightsBesideFloat16) {
  for (const bool hooked : {false, true})
    for (const int64_t weight : {int64_t{8192}, int64_t{5}, int64_t{1} << 40})
      run_world(Backend::Local, 2, [&](const comm::Group& group) {
        torch::nn::Linear net(torch::nn::LinearOptions(2, 1).bias(false));
        DataParallelOptions options{.reduction = Reduction::WeightedMean};
        if (hooked)
          options.hooks = {make_fp16_hook()};
        else
          options.gradient_dtype = at::kHalf;
        DataParallel model(net, group, options);
        for (int step = 0; step < 2; ++step) {
          // 3 of 4 parts, then 1 of 2.
          const int64_t parts = step == 0 && group.rank() == 0 ? 3 : 1;
          model.set_weight(weight / 4 * parts);
          (model(at::ones({1, 2})).sum() * (group.rank() == 0 ? 20 : 40)).backward();
          EXPECT_EQ(net->weight.grad()[0][0].item<float>(), step == 0 ? 25 : 30);
          net->zero_grad();
        }
        model.set_weight(0);
        model(at::ones({1, 2})).sum().backward();
        EXPECT_EQ(net->weight.grad()[0][0].item<float>(), 0);
      });
}

TEST(DataParallelRanks, LargeWeightsBesideRowsInFloat16) {
  run_world(Backend::Local, 2, [&](const comm::Group& group) {
    torch::nn::Embedding net(torch::nn::EmbeddingOptions(3, 1).sparse(true));
    DataParallelOptions options{.reduction = Reduction::WeightedMean};
    options.gradient_dtype = at::kHalf;
    DataParallel model(net, group, options);
    model.set_weight(group.rank() == 0 ? 8192 * 3 : 8192);
    const at::Tensor row = at::ones({1}, at::kLong);
    (model(row).sum() * (group.rank() == 0 ? 20 : 40)).backward();
    EXPECT_EQ(net->weight.grad().to_dense()[1][0].item<float>(), 25);
  });
}

}  // namespace
}  // namespace trireme::dp
