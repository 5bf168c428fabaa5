#include "trireme/dp/sync_batch_norm_function.h"

#include <cmath>
#include <cstdlib>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "close.h"
#include "trireme/autograd/executor.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using autograd::Executor;
using autograd::variable_list;
using testing::Backend;
using testing::contains;
using testing::message_of;
using torch::autograd::impl::gradient_edge;

at::Tensor random(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kFloat);
}

at::Tensor leaf(const at::Tensor& tensor) {
  return tensor.detach().clone().set_requires_grad(true);
}

/// A rank's rows of a batch of 12.
at::Tensor own_rows(const comm::Group& group) {
  const at::Tensor whole = random({12, 3, 4}, 1);
  const int64_t rows = group ? 12 / group.size() : 12;
  return whole.narrow(0, group ? rows * group.rank() : 0, rows);
}

/// These rows, with weight and bias, and what comes of them.
struct Case {
  explicit Case(const comm::Group& world, at::ScalarType type = at::kFloat)
      : group(world),
        x(leaf(own_rows(world).to(type))),
        weight(leaf(random({3}, 2).to(type))),
        bias(leaf(random({3}, 3).to(type))) {}
  at::Tensor y() const {
    return normalize(
        x,
        batch_statistics(x, group),
        {.weight = weight, .bias = bias, .group = group});
  }
  /// Not a plain sum, whose gradient for x would be nothing.
  at::Tensor loss() const { return y().to(at::kFloat).pow(3).sum(); }

  comm::Group group;
  at::Tensor x, weight, bias;
};

/// The slope of the loss of all ranks in direction of `values` changing at one place,
/// on `owner` only.
double slope(const Case& one, at::Tensor values, int owner) {
  const c10::NoGradGuard no_grad;
  constexpr double kStep = 1e-5;
  at::Tensor place = values.view(-1)[5 % values.numel()];
  at::Tensor sides = at::zeros({2}, at::kDouble);
  for (const int side : {0, 1}) {
    if (one.group.rank() == owner)
      place.add_(side == 0 ? kStep : -2 * kStep);
    sides[side] = one.y().pow(3).sum();
  }
  if (one.group.rank() == owner)
    place.add_(kStep);
  comm::all_reduce(one.group, sides);
  return (sides[0] - sides[1]).item<double>() / (2 * kStep);
}

TEST(SyncBatchNormFunctionRanks, HasTheSlopeOfItsValues) {
  testing::run_world(Backend::Local, 2, [](const comm::Group& world) {
    const Case one(world, at::kDouble);
    one.y().pow(3).sum().backward();
    for (const at::Tensor& values : {one.x, one.weight, one.bias})
      for (const int owner : {0, 1}) {
        const double wanted = slope(one, values, owner);
        if (world.rank() == owner) {
          EXPECT_NEAR(
              values.grad().view(-1)[5 % values.numel()].item<double>(),
              wanted,
              1e-6 * std::abs(wanted) + 1e-7);
        }
      }
  });
}

TEST(SyncBatchNormFunctionRanks, RunsUnderOurExecutorBitForBit) {
  testing::run_world(Backend::Local, 2, [](const comm::Group& world) {
    const Case engine(world), fused(world), split(world);
    engine.loss().backward();
    Executor executor;
    executor.backward({{gradient_edge(fused.loss())}, {at::ones({})}}, {});
    const std::vector<autograd::NodePtr> inputs{gradient_edge(split.x).function};
    autograd::WeightRest weights;
    const variable_list of_x = executor.input_pass(
        {{gradient_edge(split.loss())}, {at::ones({})}}, {.inputs = inputs}, weights);
    executor.weight_pass(std::move(weights), {});
    EXPECT_TRUE(testing::same(fused.x.grad(), engine.x.grad()));
    EXPECT_TRUE(testing::same(fused.weight.grad(), engine.weight.grad()));
    EXPECT_TRUE(testing::same(fused.bias.grad(), engine.bias.grad()));
    EXPECT_TRUE(testing::same(of_x.at(0), engine.x.grad()));
    EXPECT_TRUE(testing::same(split.weight.grad(), engine.weight.grad()));
    EXPECT_TRUE(testing::same(split.bias.grad(), engine.bias.grad()));
  });
}

TEST(SyncBatchNormFunctionRanks, TakesPartWithoutAGradient) {
  testing::run_world(Backend::Local, 2, [](const comm::Group& world) {
    // Rank 1's output is not in the loss, but what it adds to the statistics is.
    const Case one(world);
    const at::Tensor y = one.y();
    const at::Tensor gradient = world.rank() == 0 ? at::cos(y.detach()) : at::Tensor();
    Executor executor;
    executor.backward({{gradient_edge(y)}, {gradient}}, {});
    EXPECT_GT(one.x.grad().abs().max().item<float>(), 1e-3);
  });
}

TEST(SyncBatchNormFunction, NeedsNoGroup) {
  const Case one{comm::Group()};
  EXPECT_TRUE(close(
      one.y(),
      at::batch_norm(one.x, one.weight, one.bias, {}, {}, true, 0, 1e-5, false)));
}

TEST(SyncBatchNormFunction, ComputesWhatIsAskedForOnly) {
  Case one{comm::Group()};
  {
    const c10::NoGradGuard no_grad;
    EXPECT_FALSE(one.y().requires_grad());
  }
  one.x = one.x.detach();
  one.loss().backward();
  EXPECT_TRUE(one.weight.grad().defined());
  EXPECT_FALSE(one.x.grad().defined());
  one.weight = at::Tensor();
  one.x.set_requires_grad(true);
  one.loss().backward();
  EXPECT_TRUE(one.x.grad().defined());
}

TEST(SyncBatchNormFunction, RunsBackwardTwiceIfTheGraphIsKept) {
  const Case one{comm::Group()};
  const at::Tensor loss = one.loss();
  loss.backward({}, /*retain_graph=*/true);
  const at::Tensor first = one.x.grad().clone();
  loss.backward();
  EXPECT_TRUE(close(one.x.grad(), 2 * first));
  EXPECT_THROW(loss.backward(), c10::Error);
}

TEST(SyncBatchNormFunction, RefusesSecondDerivatives) {
  const Case one{comm::Group()};
  const at::Tensor loss = one.loss();
  EXPECT_TRUE(contains(
      message_of<NotSupported>([&] {
        torch::autograd::grad({loss}, {one.x}, {}, std::nullopt, /*create_graph=*/true);
      }),
      "[dp] expected a backward of SyncBatchNorm that is not differentiated again"));
}

TEST(SyncBatchNormFunction, NoticesAChangedInput) {
  const Case one{comm::Group()};
  const at::Tensor x = one.x * 1;
  const at::Tensor y = normalize(x, batch_statistics(x, {}), {});
  x.add_(1);
  EXPECT_THROW(y.sum().backward(), c10::Error);
}

/// Rank 1 fails between forward and backward: whoever waits in backward is told.
void fail_in_backward(bool by_engine) {
  bool noticed = false;
  const auto body = [&](const comm::Group& world) {
    const Case one(world);
    const at::Tensor loss = one.loss();
    if (world.rank() == 1)
      throw InvalidArgument("[test] rank 1 gives up");
    const std::string message = message_of<PeerError>([&] {
      if (by_engine)
        loss.backward();
      else
        Executor().backward({{gradient_edge(loss)}, {at::ones({})}}, {});
    });
    noticed = contains(message, "rank 1 gives up");
    EXPECT_TRUE(noticed) << message;
  };
  EXPECT_ANY_THROW(testing::run_world(Backend::Local, 2, body));
  EXPECT_TRUE(noticed);
}

TEST(SyncBatchNormFunctionRanks, TellsOfAPeerThatFails) {
  fail_in_backward(true);
  fail_in_backward(false);
}

TEST(SyncBatchNormFunctionProcs, TellsOfAPeerThatDies) {
  constexpr int kNoticed = 7;
  testing::Processes processes;
  processes.start_ranks(testing::fresh_job_name(), 2, [&](const comm::Group& world) {
    const Case one(world);
    const at::Tensor loss = one.loss();
    if (world.rank() == 1)
      std::_Exit(3);  // as if killed: nothing is said to the others
    try {
      loss.backward();
    } catch (const PeerError& error) {
      return error.rank() == 1 ? kNoticed : 1;
    }
    return 2;
  });
  const auto endings = processes.wait(std::chrono::seconds(20));
  EXPECT_EQ(endings[0].exit_code, kNoticed);
  EXPECT_EQ(endings[1].exit_code, 3);
}

at::Tensor random(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  return at::randn(sizes, at::detail::createCPUGenerator(17), type);
}

void expect_statistics_of(
    const BatchStatistics& got, const at::Tensor& whole, double rtol = 1e-6) {
  const at::Tensor values = whole.to(at::kDouble).transpose(0, 1).flatten(1);
  EXPECT_EQ(got.count, values.size(1));
  EXPECT_TRUE(close(got.mean, values.mean(1), 1e-6, 1e-7));
  EXPECT_TRUE(close(got.variance, values.var(1, false), rtol, 0));
}

TEST(BatchStatistics, OfOneRank) {
  for (const at::Tensor& x :
       {random({7, 3}),
        random({4, 3, 5}),
        random({2, 3, 4, 5}),
        random({2, 3, 2, 2, 3}, at::kDouble),
        random({1, 1}),
        random({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast),
        random({5, 4, 3}).transpose(0, 2)})
    expect_statistics_of(batch_statistics(x, {}), x);
}

TEST(BatchStatistics, ComputeShortTypesInFloat) {
  const at::Tensor x = random({300, 2}).add(20).to(at::kBFloat16);
  expect_statistics_of(batch_statistics(x, {}), x);
  EXPECT_EQ(to_compute_type(x).scalar_type(), at::kFloat);
  EXPECT_EQ(compute_type(at::kHalf), at::kFloat);
  EXPECT_EQ(compute_type(at::kDouble), at::kDouble);
}

TEST(BatchStatistics, OfNothing) {
  const BatchStatistics got = batch_statistics(at::empty({0, 3, 4}), {});
  EXPECT_EQ(got.count, 0);
  EXPECT_TRUE(got.mean.isfinite().all().item<bool>());
  EXPECT_TRUE(got.variance.isfinite().all().item<bool>());
}

// The square of the mean is 1e8 times the variance, and float32 has 7 digits: what
// takes the difference of the two has none left. A rank's own mean is a float32, off by
// up to 5e-4 here, which moves the variance by that times the distance between means.
TEST(BatchStatisticsRanks, KeepTheirDigitsFarFromZero) {
  testing::run_world(Backend::Local, 4, [](const comm::Group& world) {
    const at::Tensor whole = random({64, 3, 5}).add(10000);
    const BatchStatistics got =
        batch_statistics(whole.narrow(0, 16 * world.rank(), 16), world);
    expect_statistics_of(got, whole, 1e-4);
  });
}

void merge_uneven(Backend backend) {
  testing::run_world(backend, 4, [](const comm::Group& world) {
    const std::vector<int64_t> starts{0, 5, 5, 6, 20};  // rank 1 has none
    const at::Tensor whole = random({20, 3, 2});
    const auto rank = static_cast<size_t>(world.rank());
    const BatchStatistics got =
        batch_statistics(whole.slice(0, starts[rank], starts[rank + 1]), world);
    expect_statistics_of(got, whole);
    at::Tensor all = at::empty({4, 3}, at::kDouble);
    comm::all_gather(world, all, got.variance);
    for (int64_t i = 0; i < 4; ++i)
      EXPECT_TRUE(testing::same(all[i], got.variance));
  });
}

TEST(BatchStatisticsRanks, MergeBatchesOfAnySize) {
  merge_uneven(Backend::Local);
}

TEST(BatchStatisticsProcs, MergeBatchesOfAnySize) {
  merge_uneven(Backend::Shm);
}

}  // namespace
}  // namespace trireme::dp
