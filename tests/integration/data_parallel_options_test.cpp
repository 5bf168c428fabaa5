// Sums and weights, other dtypes, checks, shared and frozen parameters.
#include <cmath>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../dp/models.h"
#include "trireme/core/error.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::contains;
using testing::message_of;
using testing::run_world;
using testing::same;

at::Tensor option_input(int rank, int64_t rows = 2) {
  return whole_numbers({rows, 4}, static_cast<uint64_t>(rank + 1));
}

TEST(DataParallelOptionsRanks, Sum) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 3, [](const comm::Group& group) {
      const auto net = std::make_shared<Blocks>(2);
      const auto whole = copy_of(*net);
      DataParallel model(net, group, {.bucket_bytes = 1, .reduction = Reduction::Sum});
      for (int step = 0; step < 3; ++step) {
        model(option_input(group.rank())).sum().backward();
        for (int rank = 0; rank < 3; ++rank)
          whole->forward(option_input(rank)).sum().backward();
        expect_same_gradients(*net, *whole);
        drop_gradients(*net);
        drop_gradients(*whole);
      }
    });
}

// Ranks with 1, 2, 4 and 1 rows, and a mean over each: as one mean over all eight.
TEST(DataParallelOptionsRanks, WeightedMeanOfUnevenBatches) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    run_world(backend, 4, [](const comm::Group& group) {
      constexpr int64_t kRows[] = {1, 2, 4, 1};
      const auto net = std::make_shared<Blocks>(2);
      const auto whole = copy_of(*net);
      DataParallel model(
          net, group, {.bucket_bytes = 1, .reduction = Reduction::WeightedMean});
      for (int step = 0; step < 3; ++step) {
        model.set_weight(kRows[group.rank()]);
        (model(option_input(group.rank(), kRows[group.rank()])).sum() /
         kRows[group.rank()])
            .backward();
        for (int rank = 0; rank < 4; ++rank)
          (whole->forward(option_input(rank, kRows[rank])).sum() / 8).backward();
        EXPECT_EQ(model.replica().reducer().outcome().total_weight, 8);
        expect_same_gradients(*net, *whole);
        drop_gradients(*net);
        drop_gradients(*whole);
      }
      EXPECT_THROW(model.set_weight(-1), InvalidArgument);
    });
}

TEST(DataParallelOptionsRanks, ARankThatWeighsNothing) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(1);
    const auto alone = copy_of(*net);
    DataParallel model(net, group, {.reduction = Reduction::WeightedMean});
    model.set_weight(group.rank() == 0 ? int64_t{1} << 40 : 0);
    model(option_input(group.rank())).sum().backward();
    alone->forward(option_input(0)).sum().backward();
    expect_same_gradients(*net, *alone);
  });
}

// It takes part and changes nothing, whatever it has.
TEST(DataParallelOptionsRanks, NaNOfARankThatWeighsNothing) {
  for (const bool find_unused : {false, true})
    for (const bool hooked : {false, true})
      run_world(Backend::Local, 2, [&](const comm::Group& group) {
        const auto net = std::make_shared<Blocks>(2);
        const auto alone = copy_of(*net);
        DataParallelOptions options{
            .bucket_bytes = 1,
            .reduction = Reduction::WeightedMean,
            .find_unused = find_unused,
            .check_finite = true};
        if (hooked)
          options.hooks = {make_hook(
              "pass", [](GradBucket& bucket, const auto& next) { next(bucket); })};
        DataParallel model(net, group, options);
        for (int step = 0; step < 2; ++step) {
          model.set_weight(group.rank() == 0 ? 3 : 0);
          (model(option_input(0)) * (group.rank() == 0 ? 1 : std::nan("")))
              .sum()
              .backward();
          alone->forward(option_input(0)).sum().backward();
          expect_same_gradients(*net, *alone);
          drop_gradients(*net);
          drop_gradients(*alone);
        }
      });
}

TEST(DataParallelOptionsRanks, AWeightNeedsTheOption) {
  run_world(Backend::Local, 1, [](const comm::Group& group) {
    DataParallel model(std::make_shared<Blocks>(1), group);
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { model.set_weight(2); }), "WeightedMean"));
  });
}

/// Many small gradients after a large one: bfloat16 loses them.
double error_of_sum(const comm::Group& group, bool wide) {
  DataParallelOptions options;
  if (wide) {
    options.gradient_dtype = at::kFloat;
    options.unrounded = true;
  }
  const auto net = std::make_shared<Blocks>(1, 4, at::kBFloat16);
  DataParallel model(net, group, options);
  const auto step = [&](double scale) {
    (net->bias(0).sum() * scale + 0 * net->weight(0).sum()).backward();
  };
  constexpr int kSteps = 64;
  {
    const auto guard = model.no_sync();
    step(256);
    for (int k = 1; k < kSteps; ++k)
      step(0.5);
  }
  step(0.5);
  EXPECT_EQ(net->bias(0).grad().scalar_type(), wide ? at::kFloat : at::kBFloat16);
  const auto got = net->bias(0).grad()[0].item<double>();
  return std::abs(got - (256 + 0.5 * kSteps));
}

TEST(DataParallelOptionsRanks, SumsInFloatLoseNothing) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    EXPECT_EQ(error_of_sum(group, true), 0);
    EXPECT_GT(error_of_sum(group, false), 8);
  });
}

TEST(DataParallelOptionsRanks, MixedDtypesAndWiderGradients) {
  run_world(Backend::Shm, 2, [](const comm::Group& group) {
    class Mixed : public torch::nn::Module {
     public:
      Mixed()
          : half(register_parameter("half", at::ones({3}, at::kHalf))),
            brain(register_parameter("brain", at::ones({5}, at::kBFloat16))),
            single(register_parameter("single", at::ones({70}, at::kFloat))),
            wide(register_parameter("wide", at::ones({2}, at::kDouble))),
            complex(register_parameter("complex", at::ones({2}, at::kComplexFloat))) {}
      at::Tensor forward(double scale) const {
        at::Tensor sum = wide.sum();
        for (const at::Tensor& one : {half, brain, single, at::real(complex)})
          sum = sum + (one * scale).sum().to(at::kDouble);
        return sum;
      }
      at::Tensor half, brain, single, wide, complex;
    };
    for (const bool widen : {false, true})
      for (const bool find_unused : {false, true}) {
        DataParallelOptions options{.bucket_bytes = 16, .find_unused = find_unused};
        if (widen)
          options.gradient_dtype = at::kFloat;
        const auto net = std::make_shared<Mixed>();
        DataParallel model(net, group, options);
        for (int step = 0; step < 3; ++step) {
          model(group.rank() * 2 + 1).backward();  // 1 and 3
          for (const at::Tensor& one :
               {net->half, net->brain, net->single, net->complex}) {
            EXPECT_TRUE(same(one.grad(), at::full_like(one.grad(), 2)));
            EXPECT_EQ(one.grad().scalar_type(), one.scalar_type());
          }
          EXPECT_TRUE(same(net->wide.grad(), at::ones({2}, at::kDouble)));
          drop_gradients(*net);
        }
      }
  });
}

TEST(DataParallelOptionsRanks, NaNAndInfinityAreRefusedByName) {
  for (const double bad : {std::nan(""), double{INFINITY}})
    run_world(Backend::Local, 2, [bad](const comm::Group& group) {
      const auto net = std::make_shared<Blocks>(2);
      DataParallel model(net, group, {.bucket_bytes = 1, .check_finite = true});
      model(option_input(0)).sum().backward();
      at::Tensor loss = model(option_input(0)).sum();
      if (group.rank() == 1)
        loss = loss + (net->weight(0) * bad).sum();
      const std::string message = message_of<Error>([&] { loss.backward(); });
      EXPECT_TRUE(contains(message, "NaN or infinity on rank 1 in w0"));
    });
}

TEST(DataParallelOptionsRanks, ReplicasThatDriftApartAreFound) {
  run_world(Backend::Shm, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(3);
    DataParallel model(net, group, {.check_replicas_every = 2});
    for (int step = 0; step < 4; ++step)
      model(option_input(0)).sum().backward();
    model.replica().check_replicas();
    if (group.rank() == 1)
      add_to(net->weight(1), 1e-12);
    const std::string message = message_of<Error>([&] {
      model(option_input(0)).sum().backward();
      model(option_input(0)).sum().backward();
    });
    EXPECT_TRUE(contains(message, "values of w1 that differ"));
    model.replica().broadcast_state(1);
    model.replica().check_replicas();
  });
}

/// The same tensor under two names.
class Tied : public torch::nn::Module {
 public:
  Tied() : tied(register_parameter("encoder", at::ones({2}))) {
    register_parameter("decoder", tied);
  }
  at::Tensor forward(double scale) const { return (tied * scale + tied * scale).sum(); }
  at::Tensor tied;
};

TEST(DataParallelOptionsRanks, SharedWeights) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Tied>();
    DataParallel model(net, group);
    EXPECT_EQ(model.replica().reducer().parameters().size(), 1);
    for (int step = 0; step < 3; ++step) {
      model(group.rank() + 1).backward();
      EXPECT_TRUE(same(net->tied.grad(), at::full({2}, 2 * 1.5F)));
      if (step == 0)
        net->tied.mutable_grad() = at::Tensor();
      else
        net->tied.grad().zero_();
    }
  });
}

TEST(DataParallelOptionsRanks, AParameterThatIsFrozenLater) {
  for (const bool static_graph : {false, true})
    run_world(Backend::Local, 2, [&](const comm::Group& group) {
      const auto net = std::make_shared<Blocks>(2);
      const auto whole = copy_of(*net);
      DataParallel model(net, group, {.bucket_bytes = 1, .static_graph = static_graph});
      for (int step = 0; step < 6; ++step) {
        for (const auto& each : {net, whole}) {
          each->weight(0).set_requires_grad(step < 2 || step > 3);
          drop_gradients(*each);
        }
        model(option_input(group.rank())).sum().backward();
        for (int rank = 0; rank < 2; ++rank)
          (whole->forward(option_input(rank)).sum() / 2).backward();
        SCOPED_TRACE(text("step ", step));
        expect_same_gradients(*net, *whole);
      }
    });
}

// What is frozen from the start is made equal as well.
TEST(DataParallelOptionsRanks, FrozenParametersComeFromRankZero) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(2, 4, at::kDouble, group.rank());
    net->weight(0).set_requires_grad(false);
    const DataParallel model(net, group);
    expect_same_values(*net, *std::make_shared<Blocks>(2, 4, at::kDouble, 0));
  });
}

DataParallelOptions ignoring(const std::string& name) {
  DataParallelOptions options;
  options.ignore.push_back(name);
  return options;
}

TEST(DataParallelOptionsRanks, IgnoredParametersAreLeftAlone) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto net = std::make_shared<Blocks>(2, 4, at::kDouble, group.rank());
    const at::Tensor before = net->weight(1).detach().clone();
    DataParallel model(net, group, ignoring("w1"));
    EXPECT_TRUE(same(net->weight(1).detach(), before));
    (net->weight(1).sum() * (group.rank() + 1) + model(option_input(0)).sum() * 0)
        .backward();
    EXPECT_TRUE(same(net->weight(1).grad(), at::full_like(before, group.rank() + 1)));
    EXPECT_THROW(DataParallel(net, group, ignoring("w7")), InvalidArgument);
  });
}

}  // namespace
}  // namespace trireme::dp
