#include "trireme/dp/optimizer_hook.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "hook_case.h"
#include "trireme/core/error.h"
#include "trireme/dp/data_parallel.h"
#include "trireme/testing/check.h"

namespace trireme::dp {
namespace {

using testing::contains;
using testing::message_of;

/// Parameters exist only when the case does, but hooks are given to it.
class LateOptimizer final : public CommHook {
 public:
  std::shared_ptr<OptimizerHook> hook;
  std::string name() const override { return "late"; }
  void run(GradBucket& bucket, const Next& next) override { hook->run(bucket, next); }
  void after(GradBucket& bucket) override { hook->after(bucket); }
};

void expect_same_parameters(const HookCase& got, const HookCase& wanted) {
  for (size_t i = 0; i < wanted.parameters().size(); ++i)
    EXPECT_TRUE(testing::same(got.parameters()[i], wanted.parameters()[i])) << i;
}

template <class Optimizer, class Options>
void expect_same_as_outside(const comm::Group& group, const Options& options) {
  for (const auto& buckets : {tiny_buckets, one_bucket}) {
    HookCase plain(group, buckets({}));
    Optimizer outside(plain.parameters(), options);
    const auto late = std::make_shared<LateOptimizer>();
    HookCase test(group, buckets({late}));
    late->hook = make_optimizer_hook<Optimizer>(test.parameters(), options);
    for (int step = 0; step < 5; ++step) {
      plain.backward();
      outside.step();
      plain.zero_grad();
      test.backward();
      for (const at::Tensor& gradient : test.gradients())
        EXPECT_FALSE(gradient.defined());
    }
    expect_same_parameters(test, plain);
    EXPECT_TRUE(same_everywhere(group, test.parameters()));
  }
}

TEST(OptimizerHook, NeedsParametersAndAFunction) {
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] {
        make_optimizer_hook<torch::optim::SGD>({}, torch::optim::SGDOptions(0.1));
      }),
      "got 0 parameters;"));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>(
          [] { const OptimizerHook hook({at::zeros({1})}, nullptr); }),
      "got 1 parameters and no function"));
}

TEST(OptimizerHookRanks, EqualsSgdOutside) {
  run_both(2, [](const comm::Group& group) {
    expect_same_as_outside<torch::optim::SGD>(group, torch::optim::SGDOptions(0.1));
    expect_same_as_outside<torch::optim::SGD>(
        group,
        torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01));
  });
}

TEST(OptimizerHookRanks, EqualsAdamOutside) {
  run_both(2, [](const comm::Group& group) {
    expect_same_as_outside<torch::optim::Adam>(group, torch::optim::AdamOptions(0.01));
    expect_same_as_outside<torch::optim::AdamW>(
        group, torch::optim::AdamWOptions(0.01).weight_decay(0.1));
  });
}

TEST(OptimizerHookRanks, StepsASubset) {
  run_both(2, [](const comm::Group& group) {
    const torch::optim::SGDOptions options(0.1);
    HookCase plain(group, tiny_buckets({}));
    const auto late = std::make_shared<LateOptimizer>();
    HookCase test(group, tiny_buckets({late}));
    const auto all = test.parameters();
    late->hook =
        make_optimizer_hook<torch::optim::SGD>({all.begin() + 2, all.end()}, options);
    const at::Tensor before = all[0].detach().clone();
    test.backward();
    EXPECT_TRUE(testing::same(all[0].detach(), before));
    for (size_t i = 0; i < all.size(); ++i)
      EXPECT_EQ(all[i].grad().defined(), i < 2);
    test.sgd(0.1);  // the rest
    plain.train(1, 0.1);
    EXPECT_LT(distance(test.parameters(), plain.parameters()), 1e-7);
  });
}

TEST(OptimizerHookRanks, AddsUpUnderNoSync) {
  run_both(2, [](const comm::Group& group) {
    const auto options = torch::optim::SGDOptions(0.1).momentum(0.9);
    HookCase plain(group, tiny_buckets({}));
    torch::optim::SGD outside(plain.parameters(), options);
    const auto late = std::make_shared<LateOptimizer>();
    HookCase test(group, tiny_buckets({late}));
    late->hook = make_optimizer_hook<torch::optim::SGD>(test.parameters(), options);
    for (int step = 0; step < 3; ++step) {
      for (HookCase* each : {&plain, &test}) {
        const auto guard = each->replica().no_sync();
        each->backward();
        for (const at::Tensor& gradient : each->gradients())
          EXPECT_TRUE(gradient.defined());
      }
      plain.backward();
      outside.step();
      plain.zero_grad();
      test.backward();
    }
    expect_same_parameters(test, plain);
  });
}

TEST(OptimizerHookRanks, LeavesUnusedParametersAlone) {
  for (const auto& buckets : {tiny_buckets, one_bucket})
    run_both(2, [&](const comm::Group& group) {
      const auto options = torch::optim::SGDOptions(0.1).momentum(0.9);
      DataParallelOptions settings = buckets({});
      settings.find_unused = true;
      HookCase plain(group, settings);
      torch::optim::SGD outside(plain.parameters(), options);
      const auto late = std::make_shared<LateOptimizer>();
      settings.hooks = {late};
      HookCase test(group, settings);
      late->hook = make_optimizer_hook<torch::optim::SGD>(test.parameters(), options);
      // Momentum would move what is stepped with zeros.
      for (const bool short_way : {false, true, false}) {
        plain.backward(short_way);
        outside.step();
        plain.zero_grad();
        test.backward(short_way);
      }
      expect_same_parameters(test, plain);
    });
}

TEST(OptimizerHookRanks, RanksWithoutInputsStepAsWell) {
  run_both(2, [](const comm::Group& group) {
    const auto late = std::make_shared<LateOptimizer>();
    HookCase test(group, tiny_buckets({late}));
    late->hook = make_optimizer_hook<torch::optim::SGD>(
        test.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    test.replica().reducer().set_join({.divide_by_active = true});
    for (int step = 0; step < 3; ++step)
      if (step == 0 || group.rank() == 0)
        test.backward();
      else
        EXPECT_TRUE(test.replica().shadow_step());
    EXPECT_TRUE(same_everywhere(group, test.parameters()));
    // Nobody has inputs any more: momentum must not move anything either.
    std::vector<at::Tensor> before;
    for (const at::Tensor& parameter : test.parameters())
      before.push_back(parameter.detach().clone());
    EXPECT_FALSE(test.replica().shadow_step());
    for (size_t i = 0; i < before.size(); ++i)
      EXPECT_TRUE(testing::same(test.parameters()[i].detach(), before[i])) << i;
  });
}

TEST(OptimizerHookRanks, GradientsMayBeWider) {
  run_both(2, [](const comm::Group& group) {
    torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(4, 2));
    embedding->to(at::kBFloat16);
    embedding->weight.data().fill_(1);
    const auto hook = make_optimizer_hook<torch::optim::SGD>(
        embedding->parameters(), torch::optim::SGDOptions(0.5));
    DataParallelOptions options = one_bucket({hook});
    options.gradient_dtype = at::kFloat;
    Replica replica(*embedding, group, options);
    replica.watch((embedding->weight * (group.rank() + 1)).sum()).backward();
    EXPECT_TRUE((embedding->weight == 0.25).all().item<bool>());
    EXPECT_EQ(embedding->weight.scalar_type(), at::kBFloat16);
    EXPECT_FALSE(embedding->weight.grad().defined());
  });
}

TEST(OptimizerHookRanks, LearningRatesCanBeSet) {
  run_both(2, [](const comm::Group& group) {
    HookCase plain(group, one_bucket({}));
    const auto late = std::make_shared<LateOptimizer>();
    HookCase test(group, one_bucket({late}));
    late->hook = make_optimizer_hook<torch::optim::SGD>(
        test.parameters(), torch::optim::SGDOptions(100));
    for (const auto& optimizer : late->hook->optimizers())
      optimizer->param_groups()[0].options().set_lr(0.1);
    test.backward();
    plain.train(1, 0.1);
    EXPECT_LT(distance(test.parameters(), plain.parameters()), 1e-7);
  });
}

TEST(OptimizerHookRanks, StepsRowsToo) {
  run_both(2, [](const comm::Group& group) {
    torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(6, 2).sparse(true));
    const auto hook = make_optimizer_hook<torch::optim::SGD>(
        embedding->parameters(), torch::optim::SGDOptions(1));
    Replica replica(*embedding, group, one_bucket({hook}));
    const at::Tensor before = embedding->weight.detach().clone();
    const at::Tensor rows = at::full({1}, group.rank() + 1, at::kLong);
    const auto low_precision = replica.before_forward();
    replica.watch(embedding->forward(rows).sum()).backward();
    at::Tensor wanted = before.clone();
    wanted.narrow(0, 1, 2).sub_(0.5);
    EXPECT_TRUE(at::allclose(embedding->weight.detach(), wanted));
    EXPECT_FALSE(embedding->weight.grad().defined());
  });
}

TEST(OptimizerHookRanks, NoticesParametersThatAreStillNeeded) {
  run_both(2, [](const comm::Group& group) {
    torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(4, 2));
    const auto hook = make_optimizer_hook<torch::optim::SGD>(
        embedding->parameters(), torch::optim::SGDOptions(1));
    Replica replica(*embedding, group, one_bucket({hook}));
    const at::Tensor loss = embedding->weight.pow(2).sum();
    loss.backward({}, /*keep_graph=*/true);
    // The step changed what the graph has saved.
    EXPECT_TRUE(contains(
        message_of<c10::Error>([&] { loss.backward(); }), "inplace operation"));
  });
}

// The full values are stepped, not the copies that backward works with.
TEST(OptimizerHookRanks, StepsFullValuesUnderMixedPrecision) {
  run_both(2, [](const comm::Group& group) {
    const auto options = torch::optim::SGDOptions(0.1).momentum(0.9);
    DataParallelOptions settings = tiny_buckets({});
    settings.mixed_precision.parameters = at::kBFloat16;
    HookCase plain(group, settings);
    torch::optim::SGD outside(plain.parameters(), options);
    const auto late = std::make_shared<LateOptimizer>();
    settings.hooks = {late};
    HookCase test(group, settings);
    late->hook = make_optimizer_hook<torch::optim::SGD>(test.parameters(), options);
    const at::Tensor before = test.parameters()[0].detach().clone();
    for (int step = 0; step < 4; ++step) {
      plain.backward();
      outside.step();
      plain.zero_grad();
      test.backward();
      for (const at::Tensor& parameter : test.parameters())
        EXPECT_EQ(parameter.scalar_type(), at::kFloat);
    }
    EXPECT_FALSE(at::equal(test.parameters()[0], before));
    expect_same_parameters(test, plain);
    EXPECT_TRUE(same_everywhere(group, test.parameters()));
  });
}

/// Two outputs; the loss needs the second one now and then.
struct TwoHeads : torch::nn::Module {
  TwoHeads() {
    left = register_parameter("left", at::ones({3}));
    right = register_parameter("right", at::ones({3}));
  }
  at::Tensor left, right;
};

// The graph leads to it, but no gradient comes: nobody has used it.
TEST(OptimizerHookRanks, LeavesAloneWhatLiesBehindAnUnusedOutput) {
  for (const bool find_unused : {false, true})
    for (const auto& buckets : {tiny_buckets, one_bucket})
      run_both(2, [&](const comm::Group& group) {
        const auto net = std::make_shared<TwoHeads>();
        const auto hook = make_optimizer_hook<torch::optim::SGD>(
            net->parameters(), torch::optim::SGDOptions(0.5).momentum(0.5));
        DataParallelOptions settings = buckets({hook});
        settings.find_unused = find_unused;
        Replica replica(*net, group, settings);
        const auto step = [&](bool both) {
          const auto low = replica.before_forward();
          const auto outputs =
              replica.watch(std::vector<at::Tensor>{net->left.sum(), net->right.sum()});
          (both ? outputs[0] + outputs[1] : outputs[0]).backward();
        };
        step(true);
        step(false);
        EXPECT_EQ(net->left[0].item<float>(), 1 - 0.5 - 0.75);
        EXPECT_EQ(net->right[0].item<float>(), 0.5) << "momentum would move it";
        step(true);
        EXPECT_EQ(net->right[0].item<float>(), 0.5 - 0.75);
      });
}

// Rows that only ranks of weight 0 have used are used, as dense parameters are.
TEST(OptimizerHookRanks, RowsOfRanksThatWeighNothing) {
  run_both(2, [](const comm::Group& group) {
    for (const bool hooked : {true, false}) {
      torch::nn::Sequential net(
          torch::nn::Embedding(torch::nn::EmbeddingOptions(5, 2).sparse(true)),
          torch::nn::Linear(2, 1));
      DataParallelOptions options{
          .reduction = Reduction::WeightedMean, .find_unused = true};
      if (hooked)
        options.hooks = {make_optimizer_hook<torch::optim::SGD>(
            net->parameters(), torch::optim::SGDOptions(0.1))};
      DataParallel model(net, group, options);
      const at::Tensor before = net->parameters()[0].detach().clone();
      for (const int users : {2, 1}) {
        model.set_weight(0);
        // One rank of two: the other has no rows.
        if (group.rank() < users)
          model(at::arange(3)).sum().backward();
        else
          net->ptr(1)
              ->as<torch::nn::Linear>()
              ->forward(at::ones({1, 2}))
              .sum()
              .backward();
        for (const at::Tensor& parameter : net->parameters())
          EXPECT_EQ(parameter.grad().defined(), !hooked) << parameter.sizes();
        EXPECT_TRUE(
            hooked ||
            testing::same(net->parameters()[0].grad().to_dense(), at::zeros({5, 2})));
        net->zero_grad();
      }
      EXPECT_TRUE(testing::same(net->parameters()[0].detach(), before));
    }
  });
}

}  // namespace
}  // namespace trireme::dp
