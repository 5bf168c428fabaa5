// Where gradients lie: views, other dtypes, other memory formats, what is left
// undefined.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models.h"
#include "trireme/core/error.h"
#include "trireme/dp/reducer.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::run_world;
using testing::same;

TEST(ReducerGradientsRanks, MemoryFormatsStay) {
  for (const c10::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16})
    for (const size_t bytes : {size_t{1}, size_t{1} << 20})
      run_world(Backend::Shm, 2, [&](const comm::Group& group) {
        const at::Tensor last = at::ones({2, 3, 4, 5}, dtype)
                                    .contiguous(at::MemoryFormat::ChannelsLast)
                                    .requires_grad_();
        const at::Tensor turned = at::ones({3, 2}, dtype).t().requires_grad_();
        const at::Tensor none = at::ones({0, 3}, dtype).requires_grad_();
        Reducer reducer(
            {{"last", last}, {"turned", turned}, {"none", none}},
            group,
            {.bucket_bytes = bytes});
        for (int step = 0; step < 3; ++step) {
          ((last * (group.rank() + 1)).sum() + (turned * 4).sum() + none.sum())
              .backward();
          EXPECT_TRUE(last.grad().is_contiguous(at::MemoryFormat::ChannelsLast));
          EXPECT_EQ(turned.grad().strides(), turned.strides());
          EXPECT_TRUE(same(last.grad(), at::full_like(last, 1.5).detach()));
          EXPECT_TRUE(same(turned.grad(), at::full_like(turned, 4).detach()));
          EXPECT_EQ(none.grad().numel(), 0);
          for (const at::Tensor& each : {last, turned, none})
            each.mutable_grad() = at::Tensor();
        }
      });
}

TEST(ReducerGradientsRanks, AGradientOfAnotherTensorIsCopiedIn) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const at::Tensor leaf = at::ones({3}).requires_grad_();
    Reducer reducer({{"leaf", leaf}}, group);
    leaf.mutable_grad() = at::full({3}, group.rank() * 10.0F);  // put there by hand
    (leaf * 2).sum().backward();
    EXPECT_TRUE(same(leaf.grad(), at::full({3}, 7.0F)));
    EXPECT_TRUE(reducer.gradients().holds(0, leaf.grad()));
  });
}

TEST(ReducerGradientsRanks, WiderSumsEndWithTheRound) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const at::Tensor leaf = at::ones({3}, at::kBFloat16).requires_grad_();
    const at::Tensor wide = at::ones({3}, at::kFloat).requires_grad_();
    DataParallelOptions options;
    options.gradient_dtype = at::kFloat;
    options.unrounded = true;
    Reducer reducer({{"leaf", leaf}, {"wide", wide}}, group, options);
    for (int step = 0; step < 3; ++step) {
      reducer.pause();
      ((leaf * 256).sum() + wide.sum()).backward();
      reducer.resume();
      ((leaf * (group.rank() + 0.5)).sum() + wide.sum()).backward();
      EXPECT_TRUE(same(leaf.grad(), at::full({3}, 257.0F)));
      EXPECT_TRUE(reducer.gradients().holds(0, leaf.grad()));
      EXPECT_TRUE(same(wide.grad(), at::full({3}, 2.0F)));
      leaf.mutable_grad() = at::Tensor();
      wide.mutable_grad() = at::Tensor();
    }
  });
}

// Whoever clears a gradient clears the sum, in either way, and nothing comes back.
TEST(ReducerGradientsRanks, AWindowOfWiderSumsCanBeCleared) {
  for (const bool to_none : {false, true})
    run_world(Backend::Local, 2, [&](const comm::Group& group) {
      const at::Tensor leaf = at::ones({3}, at::kBFloat16).requires_grad_();
      const at::Tensor other = at::ones({3}, at::kBFloat16).requires_grad_();
      DataParallelOptions options{.find_unused = true};
      options.gradient_dtype = at::kFloat;
      Reducer reducer({{"leaf", leaf}, {"other", other}}, group, options);
      for (int step = 0; step < 3; ++step) {
        reducer.pause();
        ((leaf * 256).sum() + (other * 256).sum()).backward();
        EXPECT_EQ(leaf.grad().scalar_type(), at::kFloat) << "where it is added up";
        for (const at::Tensor& each : {leaf, other})
          if (to_none)
            each.mutable_grad() = at::Tensor();
          else
            each.grad().zero_();
        reducer.resume();
        (leaf * (group.rank() + 1)).sum().backward();
        EXPECT_TRUE(same(leaf.grad(), at::full({3}, 1.5, at::kBFloat16)));
        EXPECT_EQ(other.grad().defined(), !to_none);
        leaf.mutable_grad() = other.mutable_grad() = at::Tensor();
      }
    });
}

// Buckets of another order in the middle of a window lose nothing of it.
TEST(ReducerGradientsRanks, ARebuildKeepsWhatIsThere) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const Blocks net(4);
    const auto whole = copy_of(net);
    std::vector<Parameter> parameters;
    for (const auto& parameter : net.named_parameters())
      parameters.push_back({parameter.key(), parameter.value()});
    Reducer reducer(parameters, group, {.bucket_bytes = 150});
    const at::Tensor x = whole_numbers({2, 4}, 2);
    for (int step = 0; step < 4; ++step) {
      net.forward(x, {3, 2, 1, 0}).sum().backward();
      whole->forward(x, {3, 2, 1, 0}).sum().backward();
      expect_same_gradients(net, *whole);
    }
    EXPECT_GE(reducer.rebuilds(), 1);
    for (size_t i = 0; i < parameters.size(); ++i)
      EXPECT_TRUE(reducer.gradients().holds(i, parameters[i].tensor.grad()));
  });
}

TEST(ReducerGradientsRanks, NormsOfWhatWasReduced) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const at::Tensor a = at::ones({4}).requires_grad_();
    const at::Tensor b = at::ones({2}, at::kComplexFloat).requires_grad_();
    Reducer reducer({{"a", a}, {"b", b}}, group, {.norm = true});
    ((a * (2 * group.rank() + 2)).sum() + at::real(b * 2).sum()).backward();
    EXPECT_NEAR(reducer.outcome().squares[0], 4 * 9, 1e-4);
    EXPECT_NEAR(reducer.outcome().squares[1], 2 * 4, 1e-4);
  });
}

// What the norm knows of a gradient moves with it to its new bucket; what was left out,
// or was put there by somebody else, it does not know.
TEST(ReducerGradientsRanks, NormsAndAnotherOrder) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const Blocks net(4);
    std::vector<Parameter> parameters;
    for (const auto& parameter : net.named_parameters())
      parameters.push_back({parameter.key(), parameter.value()});
    Reducer reducer(
        parameters, group, {.bucket_bytes = 1, .find_unused = true, .norm = true});
    const at::Tensor x = whole_numbers({2, 4}, 2);
    // Block 1 is reached by nobody, and has a gradient from before.
    net.weight(1).mutable_grad() = at::ones({4, 4}, at::kDouble);
    reducer.set_reached({1, 1, 0, 0, 1, 1, 1, 1});
    net.forward(x, {3, 2, 0}).sum().backward();
    EXPECT_EQ(reducer.rebuilds(), 1);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const bool reached = i < 2 || i > 3;
      EXPECT_EQ(reducer.is_as_reduced(i), reached) << parameters[i].name;
      if (reached) {
        EXPECT_NEAR(
            reducer.outcome().squares[i],
            parameters[i].tensor.grad().square().sum().item<double>(),
            1e-9);
      }
    }
    net.weight(0).grad().mul_(2);
    net.bias(0).mutable_grad() = at::ones({4}, at::kDouble);
    EXPECT_FALSE(reducer.is_as_reduced(0));
    EXPECT_FALSE(reducer.is_as_reduced(1));
    EXPECT_TRUE(reducer.is_as_reduced(4));
  });
}

/// Hands nothing on.
class Stop : public torch::autograd::Function<Stop> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x * 2;
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext*, const torch::autograd::variable_list&) {
    return {at::Tensor()};
  }
};

TEST(ReducerGradientsRanks, AnUndefinedGradientIsNoMistake) {
  for (const bool find_unused : {false, true})
    run_world(Backend::Local, 2, [&](const comm::Group& group) {
      const at::Tensor a = at::ones({4}).requires_grad_();
      const at::Tensor b = at::ones({2}).requires_grad_();
      Reducer reducer({{"a", a}, {"b", b}}, group, {.find_unused = find_unused});
      // On all ranks, and on one.
      (a.sum() + Stop::apply(b).sum()).backward();
      EXPECT_FALSE(b.grad().defined());
      (a.sum() + (group.rank() == 0 ? Stop::apply(b) : b * 4).sum()).backward();
      EXPECT_TRUE(same(b.grad(), at::full({2}, 2.0F)));
    });
}

}  // namespace
}  // namespace trireme::dp
