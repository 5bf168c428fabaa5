// The losses of data parallelism are PyTorch's: tests/peer/data_parallel_losses.py
// trains the same there, two ranks on gloo.

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/nn/module.h>
#include <torch/optim/sgd.h>

#include "trireme/core/error.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/testing/peer.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

constexpr int kRanks = 2, kSteps = 6, kMicrobatches = 2, kRows = 8, kWidth = 12,
              kLayers = 4;
constexpr double kRate = 5;
/// By rank, by step, by microbatch.
using Losses = std::vector<std::vector<std::vector<double>>>;

at::Tensor numbers(int64_t count, double factor) {
  return at::sin(at::arange(count, at::kDouble) * factor).to(at::kFloat);
}

at::Tensor rows_of(int rank, double factor) {
  return numbers(kRanks * kRows * kWidth, factor)
      .reshape({kRanks, kRows, kWidth})
      .select(0, rank)
      .contiguous();
}

struct Net : torch::nn::Module {
  Net() {
    for (int layer = 0; layer < kLayers; ++layer)
      weights.push_back(register_parameter(
          text("weight", layer),
          (numbers(kWidth * kWidth, 0.7 + layer) * 0.4).reshape({kWidth, kWidth})));
  }
  at::Tensor forward(at::Tensor x) const {
    for (const at::Tensor& weight : weights)
      x = at::tanh(at::matmul(x, weight));
    return x;
  }
  std::vector<at::Tensor> weights;
};

std::vector<std::vector<double>> train(const comm::Group& world) {
  DataParallel model(
      std::make_shared<Net>(),
      world,
      {.bucket_bytes = 1024, .first_bucket_bytes = 1024});
  torch::optim::SGD optimizer(model->parameters(), kRate);
  const auto x = rows_of(world.rank(), 0.3).chunk(kMicrobatches);
  const auto y = rows_of(world.rank(), 0.9).chunk(kMicrobatches);
  std::vector<std::vector<double>> losses;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    at::Tensor first;
    {
      const auto guard = model.no_sync();
      first = at::mse_loss(model.forward(x[0]), y[0]);
      (first / kMicrobatches).backward();
    }
    const at::Tensor second = at::mse_loss(model.forward(x[1]), y[1]);
    (second / kMicrobatches).backward();
    optimizer.step();
    losses.push_back({first.item<double>(), second.item<double>()});
  }
  return losses;
}

TEST(DataParallelPeer, LossesOfSixStepsAreTorchs) {
  if (const std::string missing = testing::peer_missing({}); !missing.empty())
    GTEST_SKIP() << missing;
  const Losses wanted =
      nlohmann::json::parse(testing::run_peer({DATA_PARALLEL_LOSSES})).get<Losses>();
  ASSERT_EQ(wanted.size(), size_t{kRanks});
  ASSERT_EQ(wanted[0].size(), size_t{kSteps});
  EXPECT_LT(wanted[0].back()[0], wanted[0].front()[0]);  // it learns
  for (const auto backend : {testing::Backend::Local, testing::Backend::Shm})
    testing::run_world(backend, kRanks, [&](const comm::Group& world) {
      const auto got = train(world);
      const auto& mine = wanted[static_cast<size_t>(world.rank())];
      ASSERT_EQ(got.size(), mine.size());
      for (size_t step = 0; step < mine.size(); ++step)
        for (size_t m = 0; m < mine[step].size(); ++m)
          EXPECT_NEAR(got[step][m], mine[step][m], 1e-5 + 1.3e-6 * mine[step][m])
              << to_string(backend) << " step " << step << " microbatch " << m;
    });
}

}  // namespace
}  // namespace trireme::dp
