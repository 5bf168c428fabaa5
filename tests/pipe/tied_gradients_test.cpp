#include "trireme/pipe/tied_gradients.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/autograd/executor.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/pipe/module_stage.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using autograd::grad_field;

StagePtr stage_with(const at::Tensor& w) {
  return make_stage(TensorsFunction([](const Tensors& in) { return in; }), {{"w", w}});
}

at::Tensor weight(double value) {
  return at::full({2}, value).set_requires_grad(true);
}

TEST(TiedGradientsRanks, ValuesBecomeThoseOfTheFirstPlace) {
  for (const auto backend : {testing::Backend::Local, testing::Backend::Shm})
    testing::run_world(backend, 3, [](const comm::Group& world) {
      const at::Tensor w = weight(world.rank() + 1);
      const TiedGradients tied(
          {{{{2, "w"}, {0, "w"}}}},
          {0, 1, 2},
          {{world.rank(), stage_with(w)}},
          world,
          grad_field());
      const double wanted = world.rank() == 1 ? 2 : 3;
      EXPECT_EQ(w[0].item<double>(), wanted);
    });
}

TEST(TiedGradientsRanks, EveryPlaceGetsTheSumOfTheStepAndKeepsWhatWasThere) {
  for (const auto backend : {testing::Backend::Local, testing::Backend::Shm})
    testing::run_world(backend, 3, [](const comm::Group& world) {
      const at::Tensor w = weight(1);
      TiedGradients tied(
          {{{{0, "w"}, {1, "w"}, {2, "w"}}}},
          {0, 1, 2},
          {{world.rank(), stage_with(w)}},
          world,
          grad_field());
      for (int step = 1; step <= 3; ++step) {
        tied.accumulate(w, at::full({2}, 10.0 * (world.rank() + 1)), 1);
        tied.finish();
        EXPECT_EQ(w.grad()[0].item<double>(), 60.0 * step);
      }
    });
}

// Rounded to bfloat16, 257 would be 256.
TEST(TiedGradientsRanks, SumsComeInTheDtypeThatGradientsAreAddedUpIn) {
  testing::run_world(testing::Backend::Local, 2, [](const comm::Group& world) {
    const at::Tensor w = at::ones({2}, at::kBFloat16).set_requires_grad(true);
    TiedGradients tied(
        {{{{0, "w"}, {1, "w"}}}},
        {0, 1},
        {{world.rank(), stage_with(w)}},
        world,
        grad_field(),
        at::kFloat);
    for (int step = 1; step <= 2; ++step) {
      tied.accumulate(w, at::full({2}, world.rank() == 0 ? 256 : 1, at::kBFloat16), 1);
      tied.finish();
      EXPECT_TRUE(testing::same(w.grad(), at::full({2}, 257.0F * step)));
    }
  });
}

TEST(TiedGradientsRanks, PlacesOfOneRankAndPlacesWithoutGradient) {
  testing::run_world(testing::Backend::Local, 2, [](const comm::Group& world) {
    const at::Tensor a = weight(1);
    const at::Tensor b = weight(2);
    std::vector<Stage> stages{{world.rank() == 0 ? 0 : 1, stage_with(a)}};
    if (world.rank() == 0)
      stages.push_back({2, stage_with(b)});
    TiedGradients tied(
        {{{{0, "w"}, {1, "w"}, {2, "w"}}}}, {0, 1, 0}, stages, world, grad_field());
    if (world.rank() == 0) {
      EXPECT_EQ(b[0].item<double>(), 1);
      tied.accumulate(a, at::full({2}, 3.0), 1);
      tied.accumulate(b, at::full({2}, 4.0), 1);
    }
    tied.finish();
    EXPECT_EQ(a.grad()[0].item<double>(), 7);
    if (world.rank() == 0) {
      EXPECT_EQ(b.grad()[0].item<double>(), 7);
      b.grad().zero_();  // two tensors, not one
      EXPECT_EQ(a.grad()[0].item<double>(), 7);
    }
  });
}

TEST(TiedGradientsRanks, TwoTiesWithHomesOnDifferentRanksDoNotLockUp) {
  testing::run_world(testing::Backend::Local, 2, [](const comm::Group& world) {
    const at::Tensor a = weight(1);
    const at::Tensor b = weight(1);
    const StagePtr stage = make_stage(
        TensorsFunction([](const Tensors& in) { return in; }), {{"a", a}, {"b", b}});
    TiedGradients tied(
        {{{{0, "a"}, {1, "a"}}}, {{{1, "b"}, {0, "b"}}}},
        {0, 1},
        {{world.rank(), stage}},
        world,
        grad_field());
    tied.accumulate(a, at::ones({2}), 1);
    tied.accumulate(b, at::ones({2}), 1);
    tied.finish();
    EXPECT_EQ(a.grad()[0].item<double>(), 2);
    EXPECT_EQ(b.grad()[0].item<double>(), 2);
  });
}

TEST(TiedGradientsRanks, OthersGoStraightToTheStore) {
  testing::run_world(testing::Backend::Local, 1, [](const comm::Group& world) {
    const at::Tensor w = weight(1);
    TiedGradients tied({}, {0}, {{0, stage_with(w)}}, world, grad_field());
    tied.accumulate(w, at::ones({2}), 1);
    EXPECT_EQ(w.grad()[0].item<double>(), 1);
    EXPECT_TRUE(tied.is_grad_field());
  });
}

/// Counts its calls, and keeps what it saw.
struct SeesGradient : torch::autograd::PostAccumulateGradHook {
  explicit SeesGradient(std::vector<double>& s) : seen(s) {}
  void operator()(const at::Tensor& leaf) override {
    seen.push_back(leaf.grad()[0].item<double>());
  }
  std::vector<double>& seen;
};

TEST(TiedGradientsRanks, PostAccumulateHooksSeeTheSumOnceAStep) {
  testing::run_world(testing::Backend::Local, 2, [](const comm::Group& world) {
    const at::Tensor w = weight(1);
    std::vector<double> seen;
    torch::autograd::impl::set_post_acc_grad_hooks(
        w, std::make_unique<SeesGradient>(seen));
    TiedGradients tied(
        {{{{0, "w"}, {1, "w"}}}},
        {0, 1},
        {{world.rank(), stage_with(w)}},
        world,
        grad_field());
    for (int step = 0; step < 2; ++step) {
      for (int microbatch = 0; microbatch < 3; ++microbatch) {
        const at::Tensor y = w * (world.rank() + 1.0);
        autograd::Executor().backward(
            {{torch::autograd::impl::gradient_edge(y)}, {at::ones({2})}},
            {.store = &tied});
      }
      EXPECT_EQ(seen.size(), static_cast<size_t>(step));
      tied.finish();
    }
    EXPECT_EQ(seen, (std::vector<double>{9, 18}));
  });
}

// 256 + 1 is 256 in bfloat16: sums over microbatches and places are taken in float32.
TEST(TiedGradientsRanks, SmallNumbersAreNotLostInBfloat16) {
  for (const auto backend : {testing::Backend::Local, testing::Backend::Shm})
    testing::run_world(backend, 2, [](const comm::Group& world) {
      const at::Tensor w = at::ones({2}, at::kBFloat16).set_requires_grad(true);
      TiedGradients tied(
          {{{{0, "w"}, {1, "w"}}}},
          {0, 1},
          {{world.rank(), stage_with(w)}},
          world,
          grad_field());
      const auto add = [&](double value) {
        tied.accumulate(w, at::full({2}, value, at::kBFloat16), 1);
      };
      if (world.rank() == 0)
        add(256);
      for (int microbatch = 0; microbatch < 8; ++microbatch)
        add(0.5);
      tied.finish();
      EXPECT_EQ(w.grad().scalar_type(), at::kBFloat16);
      EXPECT_EQ(w.grad()[0].item<double>(), 264);
    });
}

TEST(TiedGradientsRanks, SparseGradientsAreSummed) {
  for (const auto backend : {testing::Backend::Local, testing::Backend::Shm})
    for (const bool dense_head : {false, true})
      testing::run_world(backend, 2, [&](const comm::Group& world) {
        const at::Tensor w = at::ones({4, 3}).set_requires_grad(true);
        TiedGradients tied(
            {{{{0, "w"}, {1, "w"}}}},
            {0, 1},
            {{world.rank(), stage_with(w)}},
            world,
            grad_field());
        const auto rows = [](std::vector<int64_t> which) {
          const auto count = static_cast<int64_t>(which.size());
          return at::sparse_coo_tensor(
              at::tensor(which).unsqueeze(0), at::ones({count, 3}), {4, 3});
        };
        at::Tensor wanted = at::zeros({4, 3});
        for (int step = 1; step <= 2; ++step) {
          const bool dense = dense_head && world.rank() == 1;
          tied.accumulate(w, dense ? at::ones({4, 3}) : rows({0, 2, 2}), 1);
          tied.accumulate(w, dense ? at::ones({4, 3}) : rows({world.rank()}), 1);
          tied.finish();
          wanted += rows({0, 2, 2, 0}).to_dense();
          wanted += dense_head ? at::full({4, 3}, 2.0) : rows({0, 2, 2, 1}).to_dense();
          EXPECT_EQ(w.grad().is_sparse(), !dense_head);
          EXPECT_TRUE(testing::same(
              w.grad().is_sparse() ? w.grad().to_dense() : w.grad(), wanted));
        }
      });
}

TEST(TiedGradientsRanks, RefusesWhatIsNotThere) {
  testing::run_world(testing::Backend::Local, 1, [](const comm::Group& world) {
    EXPECT_THROW(
        TiedGradients(
            {{{{0, "w"}, {0, "v"}}}},
            {0},
            {{0, stage_with(weight(1))}},
            world,
            grad_field()),
        InvalidArgument);
  });
}

// On all ranks, at once: also on those that only send, or have no part in it.
TEST(TiedGradientsRanks, WhatIsNotAlikeIsRefusedEverywhere) {
  const auto refused =
      [](const at::TensorOptions& options, int64_t size, const std::string& says) {
        for (const auto backend : {testing::Backend::Local, testing::Backend::Shm})
          testing::run_world(
              backend,
              3,
              [&](const comm::Group& world) {
                const at::Tensor w =
                    (world.rank() == 2 ? at::ones({size}, options) : at::ones({2}))
                        .set_requires_grad(true);
                const std::string message = testing::message_of<InvalidArgument>([&] {
                  TiedGradients(
                      {{{{0, "w"}, {2, "w"}}}},
                      {0, 1, 2},
                      {{world.rank(), stage_with(w)}},
                      world,
                      grad_field());
                });
                EXPECT_TRUE(testing::contains(message, says));
                comm::barrier(world);  // the ranks are still in step
              },
              {.timeout = std::chrono::seconds(5)});
      };
  refused(
      at::kFloat,
      3,
      "got {0, \"w\"} of Float [2] and {2, \"w\"} of Float [3]; tie what");
  refused(
      at::kDouble, 2, "got {0, \"w\"} of Float [2] and {2, \"w\"} of Double [2]; tie");
}

}  // namespace
}  // namespace trireme::pipe
