// Another group under the same model: after a failure, and with fewer ranks.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

#include "../dp/models.h"
#include "trireme/autograd/executor.h"
#include "trireme/core/error.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::run_world;

using Model = DataParallel<std::shared_ptr<Blocks>>;

at::Tensor group_input(int rank) {
  return whole_numbers({2, 4}, static_cast<uint64_t>(rank + 1));
}

void expect_good_steps(Model& model, const comm::Group& group) {
  const auto whole = copy_of(*model.module());
  for (int step = 0; step < 3; ++step) {
    drop_gradients(*model.module());
    drop_gradients(*whole);
    model(group_input(group.rank())).sum().backward();
    for (int rank = 0; rank < group.size(); ++rank)
      (whole->forward(group_input(rank)).sum() / group.size()).backward();
    SCOPED_TRACE(text("step ", step, " of rank ", group.rank()));
    expect_same_gradients(*model.module(), *whole);
  }
}

/// A hook in the middle of the model that throws on rank 1.
void fail_once(Model& model, const comm::Group& group) {
  at::Tensor y = model.module()->block(0, group_input(0));
  if (group.rank() == 1)
    y.register_hook([](const at::Tensor& gradient) -> at::Tensor {
      TORCH_CHECK(gradient.numel() == 0, "trouble");
      return gradient;
    });
  at::Tensor out = model.replica().watch(model.module()->forward(y, {1, 2}));
  EXPECT_THROW(out.sum().backward(), std::exception);
}

void goes_on(const comm::Group& first, const DataParallelOptions& options, int before) {
  comm::Group world = first;
  Model model(std::make_shared<Blocks>(3), world, options);
  for (int step = 0; step < before; ++step)
    model(group_input(0)).sum().backward();
  for (int k = 0; k < 2; ++k) {
    fail_once(model, world);
    world = world.renew();
    // Whatever a rank has done in the meantime, rank 0's values count.
    add_to(model.module()->weight(0), world.rank());
    model.replica().replace_group(world);
    model.replica().check_replicas();
    expect_good_steps(model, world);
  }
}

TEST(DataParallelGroupsRanks, TrainingGoesOnAfterAFailure) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 2, [](const comm::Group& group) {
      goes_on(group, {.bucket_bytes = 1}, 2);
    });
  run_world(Backend::Local, 2, [](const comm::Group& group) { goes_on(group, {}, 0); });
}

TEST(DataParallelGroupsRanks, TheFirstBackwardOfAStaticGraphFails) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    goes_on(group, {.bucket_bytes = 1, .static_graph = true}, 0);
  });
}

TEST(DataParallelGroupsRanks, AfterAFailureWithUnusedParameters) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    goes_on(group, {.bucket_bytes = 1, .find_unused = true}, 1);
  });
}

TEST(DataParallelGroupsRanks, AfterAFailureInAMapThatIsGone) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    Model model(std::make_shared<Blocks>(3), group, {.bucket_bytes = 1});
    {
      autograd::GradientMap map;
      at::Tensor y = model.module()->block(0, group_input(0));
      if (group.rank() == 1)
        y.register_hook([](const at::Tensor& gradient) -> at::Tensor {
          TORCH_CHECK(gradient.numel() == 0, "trouble");
          return gradient;
        });
      const at::Tensor loss =
          model.replica().watch(model.module()->forward(y, {1, 2})).sum();
      autograd::Executor executor;
      EXPECT_THROW(
          executor.backward(
              {{torch::autograd::impl::gradient_edge(loss)}, {at::ones_like(loss)}},
              {.store = &map}),
          std::exception);
    }
    const comm::Group world = group.renew();
    model.replica().replace_group(world);
    expect_good_steps(model, world);
  });
}

TEST(DataParallelGroupsRanks, FewerRanksAndAllAgain) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 4, [](const comm::Group& world) {
      Model model(std::make_shared<Blocks>(3), world, {.bucket_bytes = 100});
      expect_good_steps(model, world);
      const comm::Group half = world.split(world.rank() % 2);
      model.replica().replace_group(half);
      expect_good_steps(model, half);
      const comm::Group alone = world.split(world.rank());
      model.replica().replace_group(alone);
      expect_good_steps(model, alone);
      model.replica().replace_group(world);
      expect_good_steps(model, world);
    });
}

// The wrapper goes, and another one comes, over the same model.
TEST(DataParallelGroupsRanks, WrappedAgainAfterAFailure) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(3);
    {
      Model model(net, group);
      fail_once(model, group);
    }
    const comm::Group world = group.renew();
    Model model(net, world);
    expect_good_steps(model, world);
  });
}

// Each half has its own order of buckets and its own number of rounds; together they
// take those of the first rank.
TEST(DataParallelGroupsRanks, RanksWithDifferentPasts) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 4, [](const comm::Group& world) {
      const int part = world.rank() / 2;
      const comm::Group half = world.split(part);
      Model model(std::make_shared<Blocks>(3), half, {.bucket_bytes = 1});
      const std::vector<int> paths[2] = {{0, 1, 2}, {2, 0, 1}};
      for (int step = 0; step < 3 + part; ++step)
        model(group_input(0), paths[part]).sum().backward();
      EXPECT_EQ(model.replica().reducer().rebuilds() > 0, part == 1);
      model.replica().replace_group(world);
      EXPECT_EQ(model.replica().reducer().rounds(), 3);
      expect_good_steps(model, world);
    });
}

}  // namespace
}  // namespace trireme::dp
