#include "trireme/dp/join.h"

#include <functional>
#include <utility>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include "small_net.h"
#include "trireme/comm/collectives.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::message_of;
using testing::run_world;

constexpr double kRate = 0.125;

void descend(const torch::nn::Module& module) {
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : module.parameters())
    if (parameter.grad().defined()) {
      parameter.sub_(parameter.grad(), kRate);
      parameter.mutable_grad() = at::Tensor();
    }
}

void expect_equal_everywhere(
    const comm::Group& group, const torch::nn::Module& module) {
  for (const at::Tensor& parameter : module.parameters()) {
    at::Tensor first = parameter.detach().clone();
    comm::broadcast(group, first, 0);
    EXPECT_TRUE(testing::same(parameter.detach(), first));
  }
}

/// A replica that is looked at when all ranks are through, before the last broadcast
/// makes them equal.
class LookAtEnd final : public Joinable {
 public:
  LookAtEnd(Replica& replica, std::function<void()> look)
      : replica_(replica), look_(std::move(look)) {}
  void begin_join(const JoinOptions& options) override { replica_.begin_join(options); }
  bool shadow_step() override { return replica_.shadow_step(); }
  void all_joined() override {
    look_();
    replica_.all_joined();
  }
  void end_join() override { replica_.end_join(); }

 private:
  Replica& replica_;
  std::function<void()> look_;
};

void expect_close_values(
    const torch::nn::Module& got, const torch::nn::Module& wanted) {
  for (size_t i = 0; i < wanted.parameters().size(); ++i)
    EXPECT_TRUE(at::allclose(got.parameters()[i], wanted.parameters()[i], 1.3e-6, 1e-5))
        << i;
}

/// Rank r has inputs for `steps + r * more` steps. The last rank has them to the end:
/// what it has then is what one process has that takes everybody's samples.
void runs_to_the_end(
    const comm::Group& group, int steps, int more, const DataParallelOptions& options) {
  DataParallel model(small_net(), group, options);
  auto alone = small_net();
  int made = 0;
  bool looked = false;
  const auto one_process = [&](int step) {
    for (int rank = 0; rank < group.size(); ++rank)
      if (step < steps + rank * more)
        (alone->forward(exact_batch(2, step + 3 * rank)).mean() / group.size())
            .backward();
    descend(*alone);
  };
  LookAtEnd look(model.replica(), [&] {
    looked = true;
    if (group.rank() == group.size() - 1)
      expect_close_values(*model.module(), *alone);
  });
  join({&look}, [&] {
    for (; made < steps + group.rank() * more; ++made) {
      model(exact_batch(2, made + 3 * group.rank())).mean().backward();
      descend(*model.module());
      one_process(made);
      expect_close_values(*model.module(), *alone);
    }
  });
  EXPECT_TRUE(looked);
  EXPECT_EQ(made, steps + group.rank() * more);
  expect_equal_everywhere(group, *model.module());
}

TEST(JoinRanks, RanksWithDifferentNumbersOfInputs) {
  for (const int ranks : {2, 4})
    for (const int steps : {0, 1, 5})
      for (const int more : {0, 1, 3})
        run_world(Backend::Local, ranks, [&](const comm::Group& group) {
          SCOPED_TRACE(text(ranks, " ranks, ", steps, " and ", more));
          runs_to_the_end(group, steps, more, {});
          runs_to_the_end(
              group,
              steps,
              more,
              {.bucket_bytes = 64, .first_bucket_bytes = 64, .find_unused = true});
        });
}

TEST(JoinProcs, RanksWithDifferentNumbersOfInputs) {
  run_world(Backend::Shm, 2, [](const comm::Group& group) {
    runs_to_the_end(group, 2, 3, {.bucket_bytes = 64, .first_bucket_bytes = 64});
  });
}

/// The gradient of the only parameter, step by step, when rank 1 has one step more.
std::vector<double> gradients(const comm::Group& group, const JoinOptions& options) {
  std::vector<double> seen;
  DataParallel model(
      torch::nn::Linear(torch::nn::LinearOptions(1, 1).bias(false)), group);
  join(
      {&model.replica()},
      [&] {
        for (int step = 0; step < 1 + group.rank(); ++step) {
          model(at::ones({1, 1})).sum().backward();
          seen.push_back(model->weight.grad().item<double>());
          model->zero_grad();
        }
      },
      options);
  return seen;
}

TEST(JoinRanks, DividesByAllOrByThoseWithInputs) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const auto by_all = gradients(group, {});
    const auto by_active = gradients(group, {.divide_by_active = true});
    if (group.rank() == 1) {
      EXPECT_EQ(by_all, (std::vector<double>{1, 0.5}));
      EXPECT_EQ(by_active, (std::vector<double>{1, 1}));
    }
    // The options are of that scope alone.
    EXPECT_EQ(gradients(group, {})[0], 1);
  });
}

TEST(JoinRanks, EqualsTrainingOnAllSamplesThatThereAre) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    DataParallel model(small_net(), group, {.reduction = Reduction::WeightedMean});
    auto alone = small_net();
    // Rank 0: steps 0 and 1; rank 1: steps 0 to 3, with other samples.
    const auto batch = [](int rank, int step) {
      return exact_batch(2 + rank, 10 * rank + step);
    };
    for (int step = 0; step < 4; ++step) {
      at::Tensor x = batch(1, step);
      if (step < 2)
        x = at::cat({batch(0, step), x});
      alone->forward(x).mean().backward();
      descend(*alone);
    }
    LookAtEnd look(model.replica(), [&] {
      if (group.rank() == 1)
        expect_close_values(*model.module(), *alone);
    });
    join({&look}, [&] {
      for (int step = 0; step < (group.rank() == 0 ? 2 : 4); ++step) {
        const at::Tensor x = batch(group.rank(), step);
        model.set_weight(x.size(0));
        model(x).mean().backward();
        descend(*model.module());
      }
    });
    expect_close_values(*model.module(), *alone);
  });
}

// Ranks that are through take part in agreeing on what weights are divided by.
TEST(JoinRanks, LargeWeightsBesideFloat16) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    torch::nn::Linear net(torch::nn::LinearOptions(1, 1).bias(false));
    DataParallelOptions options{.reduction = Reduction::WeightedMean};
    options.gradient_dtype = at::kHalf;
    DataParallel model(net, group, options);
    model.set_weight(8192);
    join({&model.replica()}, [&] {
      for (int step = 0; step < 1 + group.rank(); ++step) {
        (model(at::ones({1, 1})).sum() * (group.rank() == 0 ? 20 : 40)).backward();
        EXPECT_EQ(net->weight.grad().item<float>(), step == 0 ? 30 : 40);
        net->zero_grad();
      }
    });
  });
}

// Models, windows and early ranks: one or two of three are through before the last.
TEST(JoinRanks, NoSyncInside) {
  for (const int early : {1, 2})
    for (const bool find_unused : {false, true})
      run_world(Backend::Local, 3, [&](const comm::Group& group) {
        DataParallel model(
            small_net(), group, {.bucket_bytes = 64, .find_unused = find_unused});
        auto alone = small_net();
        const auto steps = [&](int rank) { return rank < early ? 1 + rank : 4; };
        for (int step = 0; step < 4; ++step) {
          for (int rank = 0; rank < 3; ++rank)
            for (int part = 0; step < steps(rank) && part < 2; ++part)
              (alone->forward(exact_batch(2, step + 5 * part + rank)).mean() / 3)
                  .backward();
          descend(*alone);
        }
        LookAtEnd look(model.replica(), [&] {
          if (group.rank() == 2)
            expect_close_values(*model.module(), *alone);
        });
        join({&look}, [&] {
          for (int step = 0; step < steps(group.rank()); ++step) {
            {
              const auto guard = model.no_sync();
              model(exact_batch(2, step + group.rank())).mean().backward();
            }
            model(exact_batch(2, step + 5 + group.rank())).mean().backward();
            descend(*model.module());
          }
        });
        expect_equal_everywhere(group, *model.module());
      });
}

TEST(JoinRanks, BuffersComeFromARankThatHasInputs) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    torch::nn::Sequential net(
        torch::nn::BatchNorm1d(kInputs), torch::nn::Linear(kInputs, 1));
    DataParallel model(net, group);
    join({&model.replica()}, [&] {
      for (int step = 0; step < 1 + 3 * group.rank(); ++step) {
        model(exact_batch(4, step)).mean().backward();
        descend(*net);
      }
    });
    const auto tracked = net->buffers().back();
    EXPECT_EQ(tracked.item<int64_t>(), 4);  // those of rank 1
    expect_equal_everywhere(group, *net);
  });
}

/// What a step does around its reductions.
enum class StepShape { Plain, TwoBackwards, ForwardInNoSync, Bare };

// A rank without inputs must not guess when the others make buffers equal.
TEST(JoinRanks, BuffersWhateverAStepDoes) {
  for (const StepShape shape :
       {StepShape::Plain,
        StepShape::TwoBackwards,
        StepShape::ForwardInNoSync,
        StepShape::Bare})
    run_world(Backend::Local, 2, [shape](const comm::Group& group) {
      SCOPED_TRACE(static_cast<int>(shape));
      torch::nn::Sequential net(
          torch::nn::BatchNorm1d(kInputs), torch::nn::Linear(kInputs, 1));
      DataParallel model(net, group);
      const at::Tensor running = net->buffers()[0];
      const auto forward = [&](const at::Tensor& x) -> at::Tensor {
        if (shape == StepShape::Bare)
          return net->forward(x);
        if (shape != StepShape::ForwardInNoSync)
          return model(x);
        const auto guard = model.no_sync();
        return model(x);
      };
      join({&model.replica()}, [&] {
        for (int step = 0; step < 1 + 3 * group.rank(); ++step) {
          const at::Tensor before = running.clone();
          const at::Tensor loss = forward(exact_batch(4, step + group.rank())).mean();
          EXPECT_FALSE(at::equal(running, before)) << "the forward of this step";
          loss.backward({}, shape == StepShape::TwoBackwards);
          if (shape == StepShape::TwoBackwards)
            loss.backward();
          descend(*net);
        }
      });
      expect_equal_everywhere(group, *net);
      EXPECT_EQ(net->buffers().back().item<int64_t>(), 4);
      at::Tensor first = running.clone();
      comm::broadcast(group, first, 0);
      EXPECT_TRUE(testing::same(running, first));
    });
}

// Buffers that a round before the join has left different are equal in its first
// forward.
TEST(JoinRanks, BuffersAreEqualFromItsFirstForwardOn) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    torch::nn::Sequential net(
        torch::nn::BatchNorm1d(kInputs), torch::nn::Linear(kInputs, 1));
    DataParallel model(net, group);
    model(exact_batch(4, group.rank())).mean().backward();
    net->buffers()[0].fill_(group.rank() + 7);
    join({&model.replica()}, [&] {
      EXPECT_EQ(net->buffers()[0][0].item<float>(), 7);
      model(exact_batch(4)).mean().backward();
    });
  });
}

// Hooks keep state: the bucket that only says that nobody has inputs is not for them.
TEST(JoinRanks, HooksDoNotRunWhenAllAreThrough) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    int runs = 0;
    DataParallelOptions options;
    options.hooks = {make_hook("count", [&](GradBucket& bucket, const auto& next) {
      ++runs;
      next(bucket);
    })};
    DataParallel model(small_net(), group, options);
    join({&model.replica()}, [&] {
      for (int step = 0; step < 1 + group.rank(); ++step)
        model(exact_batch(2, step)).mean().backward();
    });
    EXPECT_EQ(runs, 2) << "one bucket a step";
  });
}

TEST(JoinRanks, ThrowsOnAllRanksIfAsked) {
  run_world(Backend::Local, 3, [](const comm::Group& group) {
    DataParallel model(small_net(), group);
    int made = 0;
    const std::string message = message_of<InvalidArgument>([&] {
      join(
          {&model.replica()},
          [&] {
            for (; made < (group.rank() == 1 ? 2 : 5); ++made)
              model(exact_batch(2, made)).mean().backward();
          },
          {.throw_on_early_end = true});
    });
    EXPECT_EQ(made, 2) << "the third step fails";
    EXPECT_TRUE(testing::contains(
        message, group.rank() == 1 ? "on this rank" : "none on rank 1"))
        << message;
    // As many inputs on all: nothing happens.
    join(
        {&model.replica()},
        [&] { model(exact_batch(2)).mean().backward(); },
        {.throw_on_early_end = true});
  });
}

TEST(JoinRanks, StaticGraphsAndRanksWithoutAnyInput) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    DataParallel model(small_net(), group, {.static_graph = true});
    for (int round = 0; round < 2; ++round) {
      join({&model.replica()}, [&] {
        for (int step = 0; step < 2 * (group.rank() == round); ++step) {
          model(exact_batch(2, step)).mean().backward();
          descend(*model.module());
        }
      });
      expect_equal_everywhere(group, *model.module());
    }
  });
}

TEST(JoinRanks, GradientsStayFiniteAtTheEnd) {
  for (const int ranks : {1, 2})
    run_world(Backend::Local, ranks, [](const comm::Group& group) {
      DataParallel model(small_net(), group, {.norm = true});
      join(
          {&model.replica()},
          [&] { model(exact_batch(2)).mean().backward(); },
          {.divide_by_active = true});
      for (const at::Tensor& gradient : gradients_of(*model.module()))
        EXPECT_TRUE(at::isfinite(gradient).all().item<bool>());
    });
}

TEST(JoinRanks, WhatCannotBeJoined) {
  run_world(Backend::Local, 1, [](const comm::Group& group) {
    torch::nn::Sequential net(
        torch::nn::BatchNorm1d(kInputs), torch::nn::Linear(kInputs, 1));
    DataParallelOptions options;
    options.buffers.after_forward = true;
    DataParallel model(net, group, options);
    EXPECT_TRUE(testing::contains(
        message_of<NotSupported>([&] { join({&model.replica()}, [] {}); }),
        "after_forward"));
    DataParallelOptions delays;
    delays.delay = {"0.weight"};
    DataParallel delayed(small_net(), group, delays);
    EXPECT_TRUE(testing::contains(
        message_of<NotSupported>([&] { join({&delayed.replica()}, [] {}); }),
        "`delay`"));
    DataParallel rows(
        torch::nn::Embedding(torch::nn::EmbeddingOptions(4, 2).sparse(true)), group);
    EXPECT_TRUE(testing::contains(
        message_of<NotSupported>([&] { join({&rows.replica()}, [] {}); }),
        "sparse ones only"));
  });
}

TEST(JoinRanks, SeveralModels) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    DataParallel first(small_net(), group);
    DataParallel second(small_net(), group);
    join({&first.replica(), &second.replica()}, [&] {
      for (int step = 0; step < 1 + 2 * group.rank(); ++step) {
        first(exact_batch(2, step)).mean().backward();
        second(exact_batch(2, step + 1)).mean().backward();
        descend(*first.module());
        descend(*second.module());
      }
    });
    expect_equal_everywhere(group, *first.module());
    expect_equal_everywhere(group, *second.module());
  });
}

TEST(JoinRanks, ErrorsPassAtOnce) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    DataParallel model(small_net(), group);
    EXPECT_EQ(
        message_of<std::logic_error>(
            [&] { join({&model.replica()}, [] { throw std::logic_error("mine"); }); }),
        "mine");
    EXPECT_THROW(join({}, [] {}), InvalidArgument);
    EXPECT_THROW(join({nullptr}, [] {}), InvalidArgument);
    bool ran = false;
    join({&model.replica()}, [&] { ran = true; }, {.enable = false});
    EXPECT_TRUE(ran);
  });
}

}  // namespace
}  // namespace trireme::dp
