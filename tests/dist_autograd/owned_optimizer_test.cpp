#include "trireme/dist_autograd/owned_optimizer.h"

#include <limits>

#include "optimizer_world.h"

namespace trireme::dist_autograd {
namespace {

// What a worker does with parameters of its own.
void own_world(
    const std::function<
        void(const std::function<OwnedGroup(const Tensors&, const OptimizerKind&)>&)>&
        body) {
  lead_world(1, {}, [&](Agent& agent) {
    std::int64_t number = 0;
    body([&](const Tensors& tensors, const OptimizerKind& kind) {
      OwnedGroup group{.group = 0, .kind = kind, .parameters = {}, .numbers = {}};
      for (const at::Tensor& tensor : tensors) {
        group.parameters.push_back(agent.own(tensor));
        group.numbers.push_back(number++);
      }
      return group;
    });
  });
}

TEST(OwnedOptimizerRanks, StepsByWhatItIsGiven) {
  own_world([](const auto& group_of) {
    ParameterLocks locks;
    const at::Tensor a = leaf({3});
    const at::Tensor b = leaf({3});
    a.mutable_grad() = at::ones({3});
    const at::Tensor before = a.detach().clone();
    const at::Tensor b_before = b.detach().clone();
    OwnedOptimizer optimizer({group_of({a, b}, Sgd{.lr = 1})}, locks);
    Gradients gradients("context 0.1");
    gradients.set(a, at::full({3}, 2.0));
    const StepGradients found = optimizer.gradients(&gradients, true);
    EXPECT_EQ(found.defined(), 1);
    EXPECT_NEAR(found.squares(), 12, 1e-5);
    optimizer.step(found, {.rates = {0.25}, .scale = 0.5});
    EXPECT_TRUE(at::equal(a.detach(), before - 0.25));
    EXPECT_TRUE(at::equal(b.detach(), b_before));
    EXPECT_TRUE(at::equal(a.grad(), at::ones({3})));
    EXPECT_TRUE(at::equal(gradients.get(a), at::full({3}, 2.0)));
    // Nothing is left of a step for the next one.
    const StepGradients none = optimizer.gradients(nullptr, true);
    EXPECT_EQ(none.defined(), 0);
    optimizer.step(none, {.rates = {1}});
    EXPECT_TRUE(at::equal(a.detach(), before - 0.25));
    EXPECT_THROW(optimizer.step(found, {.rates = {}}), InvalidArgument);
  });
}

// As a module's to() does.
TEST(OwnedOptimizerRanks, ParametersMayGetOtherMemory) {
  own_world([](const auto& group_of) {
    ParameterLocks locks;
    const at::Tensor a = leaf({3});
    OwnedOptimizer optimizer({group_of({a}, Sgd{.lr = 1})}, locks);
    a.set_data(at::zeros({3}));
    Gradients gradients("context 0.1");
    gradients.set(a, at::ones({3}));
    optimizer.step(optimizer.gradients(&gradients, false), {.rates = {1}});
    EXPECT_TRUE(at::equal(a.detach(), at::full({3}, -1.0)));
  });
}

TEST(OwnedOptimizerRanks, GradientsThatCannotBeAreRefused) {
  own_world([](const auto& group_of) {
    ParameterLocks locks;
    const at::Tensor a = leaf({3});
    const OwnedOptimizer optimizer({group_of({a}, Adam{})}, locks);
    const auto refused = [&](const at::Tensor& gradient) {
      Gradients gradients("context 0.1");
      gradients.set(a, gradient);
      return message_of<Error>([&] { optimizer.gradients(&gradients, true); });
    };
    EXPECT_TRUE(contains(refused(at::ones({2})), "in its shape [3], got one of [2]"));
    EXPECT_TRUE(
        contains(refused(at::ones({3}).to_sparse()), "dense gradients for Adam"));
    for (const double bad :
         {std::numeric_limits<double>::quiet_NaN(),
          -std::numeric_limits<double>::infinity()})
      EXPECT_TRUE(contains(refused(at::full({3}, bad)), "expected finite gradients"));
    // Its norm overflows, but no element does.
    Gradients gradients("context 0.1");
    gradients.set(a, at::full({3}, 3e38));
    EXPECT_EQ(optimizer.gradients(&gradients, true).defined(), 1);
  });
}

TEST(OwnedOptimizerRanks, ParametersThatCannotBeAreRefused) {
  own_world([](const auto& group_of) {
    ParameterLocks locks;
    const at::Tensor a = leaf({3});
    const auto refused = [&](const std::vector<OwnedGroup>& groups) {
      return message_of<InvalidArgument>(
          [&] { const OwnedOptimizer optimizer(groups, locks); });
    };
    EXPECT_TRUE(contains(
        refused({group_of({at::zeros({3})}, Sgd{})}), "does not require grad"));
    EXPECT_TRUE(
        contains(refused({group_of({a * 2}, Sgd{})}), "result of an operation"));
    EXPECT_TRUE(contains(refused({group_of({at::Tensor()}, Sgd{})}), "an undefined"));
    EXPECT_TRUE(contains(
        refused({group_of({a}, Sgd{}), group_of({a}, Adam{})}),
        "got one as parameter 3 and as parameter 4"));
    OwnedGroup wrong = group_of({a}, Sgd{});
    wrong.numbers.clear();
    EXPECT_TRUE(contains(refused({wrong}), "1 parameters and 0 numbers"));
  });
}

TEST(OwnedOptimizerRanks, StatesAreNamedByParameter) {
  own_world([](const auto& group_of) {
    ParameterLocks locks;
    const Tensors leaves{leaf({3}), leaf({2})};
    OwnedOptimizer optimizer({group_of(leaves, Sgd{.momentum = 0.5})}, locks);
    Gradients gradients("context 0.1");
    for (const at::Tensor& each : leaves)
      gradients.set(each, at::ones_like(each));
    optimizer.step(optimizer.gradients(&gradients, false), {.rates = {1}});
    TensorMap state = optimizer.state();
    ASSERT_EQ(state.size(), 2U);
    EXPECT_TRUE(at::equal(state.at("1.momentum_buffer"), at::ones({2})));
    state["1.momentum_buffer"].add_(1);
    EXPECT_TRUE(at::equal(optimizer.state().at("1.momentum_buffer"), at::ones({2})));
    optimizer.load_state(state, /*only_check=*/true);
    EXPECT_TRUE(at::equal(optimizer.state().at("1.momentum_buffer"), at::ones({2})));
    optimizer.load_state(state, /*only_check=*/false);
    EXPECT_TRUE(
        at::equal(optimizer.state().at("1.momentum_buffer"), at::full({2}, 2.0)));
  });
}

}  // namespace
}  // namespace trireme::dist_autograd
