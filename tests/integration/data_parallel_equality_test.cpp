// Training over ranks equals training in one process on the whole batch.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include "../dp/models.h"
#include "trireme/core/error.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::run_world;

constexpr Backend kBackends[] = {Backend::Local, Backend::Shm};

/// Five steps of a model of two blocks; all numbers are exact in double.
void trains_as_one(const comm::Group& group, const DataParallelOptions& options) {
  const auto net = std::make_shared<Blocks>(2, 4, at::kDouble, 1 + group.rank());
  DataParallel model(net, group, options);
  const auto whole = copy_of(Blocks(2));
  expect_same_values(*net, *whole);  // those of rank 0
  for (int step = 0; step < 5; ++step) {
    const auto seed = static_cast<uint64_t>(100 + step);
    const at::Tensor x = whole_numbers({8, 4}, seed);
    const at::Tensor t = whole_numbers({8, 4}, seed + 50);
    (model(rows_of(x, group)) * rows_of(t, group)).sum().backward();
    ((whole->forward(x) * t).sum() / group.size()).backward();
    SCOPED_TRACE(text("step ", step, " of rank ", group.rank()));
    expect_same_gradients(*net, *whole);
    for (const auto& each : {net, whole}) {
      descend(*each, 0.0625);
      drop_gradients(*each);
    }
    expect_same_values(*net, *whole);
  }
  EXPECT_EQ(model.replica().reducer().rounds(), 5);
}

TEST(DataParallelEqualityRanks, FiveStepsBitForBit) {
  for (const Backend backend : kBackends)
    for (const int ranks : {2, 4})
      run_world(backend, ranks, [](const comm::Group& group) {
        trains_as_one(group, {});
        trains_as_one(group, {.bucket_bytes = 1, .first_bucket_bytes = 1});
        trains_as_one(group, {.bucket_bytes_list = {40, 200}});
        trains_as_one(group, {.find_unused = true});
        trains_as_one(group, {.bucket_bytes = 1, .static_graph = true});
        trains_as_one(group, {.rebuild = false, .check_finite = true, .norm = true});
      });
}

TEST(DataParallelEqualityRanks, OneRankAlone) {
  run_world(Backend::Local, 1, [](const comm::Group& group) {
    trains_as_one(group, {});
    trains_as_one(group, {.bucket_bytes = 1, .find_unused = true});
    trains_as_one(group, {.reduction = Reduction::Sum, .static_graph = true});
  });
}

// Gradients that are set to zero stay views, those that are dropped are copied again.
TEST(DataParallelEqualityRanks, GradientsAreViewsOfFlatBuffers) {
  run_world(Backend::Shm, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(3);
    DataParallel model(net, group);
    const Reducer& reducer = model.replica().reducer();
    const at::Tensor x = whole_numbers({2, 4}, 3);
    for (int step = 0; step < 6; ++step) {
      model(x).sum().backward();
      const auto& parameters = reducer.parameters();
      for (size_t i = 0; i < parameters.size(); ++i)
        EXPECT_TRUE(reducer.gradients().holds(i, parameters[i].tensor.grad()));
      if (step % 2 == 0)
        drop_gradients(*net);
      else
        for (const auto& parameter : net->parameters())
          parameter.grad().zero_();
    }
  });
}

// 1/3 of anything is not exact: only the order of the sums decides.
TEST(DataParallelEqualityRanks, BucketsDoNotChangeABit) {
  for (const int ranks : {2, 3})
    run_world(Backend::Local, ranks, [](const comm::Group& group) {
      std::vector<std::shared_ptr<Blocks>> nets;
      for (const size_t bytes :
           {size_t{1}, size_t{100}, size_t{300}, size_t{1} << 20}) {
        nets.push_back(std::make_shared<Blocks>(3, 5, at::kFloat));
        DataParallel model(nets.back(), group, {.bucket_bytes = bytes});
        for (int step = 0; step < 4; ++step) {
          drop_gradients(*nets.back());
          const auto seed = static_cast<uint64_t>(10 * step + group.rank());
          (model(whole_numbers({3, 5}, seed, at::kFloat) / 7) / 3).sum().backward();
          descend(*nets.back(), 0.01);
        }
      }
      for (const auto& net : nets)
        expect_same_values(*net, *nets.front());
    });
}

TEST(DataParallelEqualityRanks, TwoHundredStepsConvergeAsOneProcess) {
  run_world(Backend::Shm, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(2, 4, at::kFloat);
    for (const at::Tensor& parameter : net->parameters())
      parameter.data().mul_(0.3);
    const auto whole = copy_of(*net);
    DataParallel model(net, group, {.bucket_bytes = 64});
    const torch::optim::SGDOptions options =
        torch::optim::SGDOptions(0.02).momentum(0.5).weight_decay(1e-3);
    torch::optim::SGD own(net->parameters(), options);
    torch::optim::SGD its(whole->parameters(), options);
    const at::Tensor x = whole_numbers({16, 4}, 5, at::kFloat) / 2;
    const at::Tensor t = whole_numbers({16, 4}, 6, at::kFloat) / 2;
    double first = 0;
    double last = 0;
    for (int step = 0; step < 200; ++step) {
      own.zero_grad();
      its.zero_grad();
      (model(rows_of(x, group)) - rows_of(t, group)).square().mean().backward();
      const at::Tensor loss = (whole->forward(x) - t).square().mean();
      loss.backward();
      own.step();
      its.step();
      last = loss.item<double>();
      first = step == 0 ? last : first;
    }
    EXPECT_LT(last, 0.6 * first);
    for (size_t i = 0; i < net->parameters().size(); ++i)
      EXPECT_TRUE(at::allclose(
          net->parameters()[i], whole->parameters()[i], 1e-4, 1e-5));  // 200 roundings
  });
}

}  // namespace
}  // namespace trireme::dp
