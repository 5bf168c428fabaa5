// Buffers, which backward does not reduce.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../dp/models.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::run_world;
using testing::same;

/// Normalizes as BatchNorm does, with running values that forward changes in place.
class Norm : public torch::nn::Module {
 public:
  Norm()
      : scale(register_parameter("scale", at::ones({4}))),
        mean(register_buffer("mean", at::zeros({4}))),
        variance(register_buffer("variance", at::ones({4}))),
        count(register_buffer("count", at::zeros({}, at::kLong))) {}
  at::Tensor forward(const at::Tensor& x) {
    count.add_(1);
    return at::batch_norm(
        x, scale, {}, mean, variance, is_training(), 0.5, 1e-5, false);
  }
  at::Tensor scale, mean, variance, count;
};

at::Tensor input(int rank) {
  return whole_numbers({8, 4}, static_cast<uint64_t>(rank + 1), at::kFloat) + rank;
}

/// The running means of all ranks after `steps` steps, one rank's after the other.
at::Tensor means_after(
    const comm::Group& group, int steps, const BufferOptions& options) {
  const auto net = std::make_shared<Norm>();
  DataParallel model(net, group, {.buffers = options});
  for (int step = 0; step < steps; ++step)
    model(input(group.rank())).square().sum().backward();
  at::Tensor all = at::empty({group.size() * 4});
  comm::all_gather(group, all, net->mean);
  return all.view({group.size(), 4});
}

/// What one forward makes of running means.
at::Tensor after_forward(const at::Tensor& before, int rank) {
  return (before + input(rank).mean(0)) / 2;
}

TEST(DataParallelBuffersRanks, Off) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const at::Tensor means = means_after(group, 2, {.mode = BufferMode::Off});
    for (int rank = 0; rank < 2; ++rank)
      EXPECT_TRUE(at::allclose(
          means[rank], after_forward(after_forward(at::zeros({4}), rank), rank)));
  });
}

TEST(DataParallelBuffersRanks, BroadcastBeforeForward) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    for (const int source : {0, 1})
      run_world(backend, 2, [&](const comm::Group& group) {
        const at::Tensor means = means_after(group, 2, {.source = source});
        const at::Tensor first = after_forward(at::zeros({4}), source);
        for (int rank = 0; rank < 2; ++rank)
          EXPECT_TRUE(at::allclose(means[rank], after_forward(first, rank)));
      });
}

TEST(DataParallelBuffersRanks, BroadcastAfterForward) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const at::Tensor means = means_after(group, 1, {.after_forward = true});
    EXPECT_TRUE(same(means[0], means[1]));
    EXPECT_TRUE(at::allclose(means[0], after_forward(at::zeros({4}), 0)));
  });
}

TEST(DataParallelBuffersRanks, Average) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const at::Tensor means =
        means_after(group, 1, {.mode = BufferMode::Average, .after_forward = true});
    const at::Tensor zero = at::zeros({4});
    EXPECT_TRUE(same(means[0], means[1]));
    EXPECT_TRUE(
        at::allclose(means[0], (after_forward(zero, 0) + after_forward(zero, 1)) / 2));
  });
}

TEST(DataParallelBuffersRanks, Hook) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    int calls = 0;
    const at::Tensor means = means_after(
        group,
        3,
        {.mode = BufferMode::Hook,
         .hook = [&](const comm::Group& ranks, const NamedBuffers& buffers) {
           ++calls;
           EXPECT_EQ(buffers.size(), 3);
           EXPECT_EQ(buffers[0].first, "mean");
           comm::broadcast(ranks, buffers[0].second, 1);
         }});
    EXPECT_EQ(calls, 2);  // before the second and the third forward
    EXPECT_FALSE(same(means[0], means[1]));
  });
}

TEST(DataParallelBuffersRanks, AHookModeWithoutAFunctionIsRefused) {
  run_world(Backend::Local, 1, [](const comm::Group& group) {
    EXPECT_THROW(means_after(group, 1, {.mode = BufferMode::Hook}), InvalidArgument);
    EXPECT_THROW(means_after(group, 1, {.source = 1}), InvalidArgument);
  });
}

// Values change below autograd: what the first forward has saved is still good.
TEST(DataParallelBuffersRanks, TwoForwardsBeforeOneBackward) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    for (const bool after_forward : {false, true}) {
      const auto net = std::make_shared<Norm>();
      DataParallel model(net, group, {.buffers = {.after_forward = after_forward}});
      for (int step = 0; step < 3; ++step) {
        const at::Tensor first = model(input(group.rank()));
        const at::Tensor second = model(input(group.rank() + 2));
        (first.square().sum() + second.square().sum()).backward();
      }
      EXPECT_EQ(net->count.item<int64_t>(), 6);
    }
  });
}

// Other memory in a buffer, which is all that C++ modules can do: that of rank 0
// reaches all before their next forward.
TEST(DataParallelBuffersRanks, ABufferThatWasReplaced) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Norm>();
    DataParallel model(net, group);
    model(input(0)).square().sum().backward();
    if (group.rank() == 0)
      net->mean.set_data(at::full({4}, 5.0F));
    model(input(0)).square().sum().backward();
    // Half of what it was, and half of the batch's.
    EXPECT_TRUE(at::allclose(net->mean, after_forward(at::full({4}, 5.0F), 0)));
  });
}

TEST(DataParallelBuffersRanks, NoSyncLeavesThemAlone) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Norm>();
    DataParallel model(net, group);
    model(input(group.rank())).square().sum().backward();
    const at::Tensor mine = net->mean.clone();
    {
      const auto guard = model.no_sync();
      model(input(group.rank())).square().sum().backward();
    }
    EXPECT_TRUE(at::allclose(net->mean, after_forward(mine, group.rank())));
  });
}

}  // namespace
}  // namespace trireme::dp
