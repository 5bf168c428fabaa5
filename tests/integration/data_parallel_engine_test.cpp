// Backward by torch's engine and by our executor, into `.grad` and into a map.
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "../dp/models.h"
#include "trireme/autograd/executor.h"
#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using autograd::Executor;
using autograd::GradientMap;
using testing::Backend;
using testing::run_world;
using testing::same;

at::Tensor engine_input(int rank) {
  return whole_numbers({2, 4}, static_cast<uint64_t>(rank + 1));
}

autograd::Roots roots_of(const at::Tensor& loss) {
  return {{torch::autograd::impl::gradient_edge(loss)}, {at::ones_like(loss)}};
}

void add_whole(Blocks& whole, const comm::Group& group) {
  for (int rank = 0; rank < group.size(); ++rank)
    (whole.forward(engine_input(rank)).sum() / group.size()).backward();
}

TEST(DataParallelEngineRanks, OwnExecutor) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 2, [](const comm::Group& group) {
      for (const DataParallelOptions& options :
           {DataParallelOptions{},
            DataParallelOptions{.bucket_bytes = 1, .find_unused = true},
            DataParallelOptions{.bucket_bytes = 1, .static_graph = true}}) {
        const auto net = std::make_shared<Blocks>(2);
        const auto whole = copy_of(*net);
        DataParallel model(net, group, options);
        Executor executor;
        for (int step = 0; step < 4; ++step) {
          const at::Tensor loss = model(engine_input(group.rank())).sum();
          if (step == 2)
            loss.backward();  // now and then the other one
          else
            executor.backward(roots_of(loss), {});
          add_whole(*whole, group);
          SCOPED_TRACE(text("step ", step, " of rank ", group.rank()));
          expect_same_gradients(*net, *whole);
        }
        EXPECT_EQ(model.replica().reducer().rounds(), 4);
      }
    });
}

TEST(DataParallelEngineRanks, GradientsInAMap) {
  for (const bool find_unused : {false, true})
    run_world(Backend::Local, 2, [&](const comm::Group& group) {
      const auto net = std::make_shared<Blocks>(3);
      const auto whole = copy_of(*net);
      DataParallel model(net, group, {.bucket_bytes = 1, .find_unused = find_unused});
      Executor executor;
      for (int step = 0; step < 4; ++step) {
        drop_gradients(*whole);
        GradientMap map;
        executor.backward(
            roots_of(model(engine_input(group.rank())).sum()), {.store = &map});
        add_whole(*whole, group);
        for (size_t i = 0; i < net->parameters().size(); ++i) {
          const at::Tensor parameter = net->parameters()[i];
          EXPECT_FALSE(parameter.grad().defined());
          EXPECT_TRUE(same(map.get(parameter), whole->parameters()[i].grad())) << i;
        }
      }
    });
}

// One in `.grad`, one in a map, in turns: they share the flat buffers.
TEST(DataParallelEngineRanks, GradientsInAMapBesideTheField) {
  run_world(Backend::Local, 2, [&](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(2);
    const auto whole = copy_of(*net);
    DataParallel model(net, group);
    model(engine_input(group.rank())).sum().backward();
    add_whole(*whole, group);
    GradientMap map;
    Executor executor;
    executor.backward(
        roots_of(3 * model(engine_input(group.rank())).sum()), {.store = &map});
    for (size_t i = 0; i < net->parameters().size(); ++i)
      EXPECT_TRUE(
          same(map.get(net->parameters()[i]), 3 * whole->parameters()[i].grad()))
          << i;
    expect_same_gradients(*net, *whole);
  });
}

TEST(DataParallelEngineRanks, CreateGraphRuns) {
  for (const DataParallelOptions& options :
       {DataParallelOptions{},
        DataParallelOptions{.bucket_bytes = 1, .static_graph = true},
        DataParallelOptions{.bucket_bytes = 1, .find_unused = true}})
    run_world(Backend::Local, 2, [&](const comm::Group& group) {
      const auto net = std::make_shared<Blocks>(2);
      const auto whole = copy_of(*net);
      DataParallel model(net, group, options);
      for (int step = 0; step < 3; ++step) {
        model(engine_input(group.rank())).sum().backward({}, std::nullopt, true);
        add_whole(*whole, group);
        expect_same_gradients(*net, *whole);
        for (const at::Tensor& parameter : net->parameters())
          EXPECT_TRUE(parameter.requires_grad());
      }
    });
}

// The graph of a gradient is lost with its reduction, which must not be silent.
TEST(DataParallelEngineRanks, CreateGraphIsWarnedOf) {
  run_world(Backend::Shm, 2, [](const comm::Group& group) {
    std::vector<std::string> lines;
    const auto scope =
        set_log_sink([&](std::string_view line) { lines.emplace_back(line); });
    DataParallel model(std::make_shared<Blocks>(2), group);
    const auto loss = [&] { return model(engine_input(group.rank())).square().sum(); };
    loss().backward();
    EXPECT_TRUE(lines.empty());
    for (int step = 0; step < 2; ++step)
      loss().backward({}, std::nullopt, true);
    ASSERT_EQ(lines.size(), 1u) << "once";
    EXPECT_TRUE(testing::contains(lines[0], "create_graph")) << lines[0];
  });
}

TEST(DataParallelEngineRanks, GradientsOfGradientsPassTheWatch) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(2);
    const auto whole = copy_of(*net);
    DataParallel model(net, group);
    const auto penalty = [](const at::Tensor& y, const at::Tensor& x) {
      const at::Tensor dx =
          torch::autograd::grad({(y * y).sum()}, {x}, {}, true, true)[0];
      return dx.sum() + y.sum();
    };
    const at::Tensor x = engine_input(group.rank()).requires_grad_();
    penalty(model(x), x).backward();
    for (int rank = 0; rank < 2; ++rank) {
      const at::Tensor its = engine_input(rank).requires_grad_();
      (penalty(whole->forward(its), its) / 2).backward();
    }
    expect_same_gradients(*net, *whole);
  });
}

}  // namespace
}  // namespace trireme::dp
