#include "trireme/dp/ready_hooks.h"

#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/autograd/executor.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::dp {
namespace {

using autograd::Executor;

/// Writes down what becomes ready, and where its gradient is.
class Notes final : public ReadyListener {
 public:
  explicit Notes(const std::vector<Parameter>& parameters) : parameters_(parameters) {}
  void ready(size_t parameter) override {
    seen.push_back(parameter);
    defined.push_back(store_of_pass().get(parameters_[parameter].tensor).defined());
    if (seen.size() == 1)
      at_end_of_pass(
          [this] { ++ends; },
          [this](const std::string& why) { failures.push_back(why); });
  }
  std::vector<size_t> seen;
  std::vector<bool> defined;
  int ends = 0;
  std::vector<std::string> failures;

 private:
  const std::vector<Parameter>& parameters_;
};

std::vector<Parameter> two() {
  return {{"a", at::ones({2}).requires_grad_()}, {"b", at::ones({2}).requires_grad_()}};
}

at::Tensor loss_of(const std::vector<Parameter>& parameters) {
  const at::Tensor late = parameters[0].tensor * 2;  // made first, so it comes last
  return (late * (parameters[1].tensor * 3)).sum();
}

autograd::Roots roots_of(const at::Tensor& loss) {
  return {{torch::autograd::impl::gradient_edge(loss)}, {at::ones_like(loss)}};
}

TEST(ReadyHooks, EngineAndExecutor) {
  const auto parameters = two();
  for (const bool own : {false, true}) {
    Notes notes(parameters);
    const ReadyHooks hooks(parameters, notes);
    if (own)
      Executor().backward(roots_of(loss_of(parameters)), {});
    else
      loss_of(parameters).backward();
    EXPECT_EQ(notes.seen, (std::vector<size_t>{1, 0}));
    EXPECT_EQ(notes.defined, (std::vector<bool>{true, true}));
    EXPECT_EQ(notes.ends, 1);
  }
}

TEST(ReadyHooks, TheStoreOfThePass) {
  const auto parameters = two();
  Notes notes(parameters);
  const ReadyHooks hooks(parameters, notes);
  autograd::GradientMap map;
  Executor().backward(roots_of(loss_of(parameters)), {.store = &map});
  EXPECT_EQ(notes.defined, (std::vector<bool>{true, true}));
  EXPECT_FALSE(parameters[0].tensor.grad().defined());
  EXPECT_TRUE(store_of_pass().is_grad_field());
}

// torch's engine does not say why.
TEST(ReadyHooks, HearOfAPassThatFails) {
  const auto parameters = two();
  for (const bool own : {false, true}) {
    Notes notes(parameters);
    const ReadyHooks hooks(parameters, notes);
    const at::Tensor late = parameters[0].tensor * 2;
    late.register_hook([](const at::Tensor& gradient) -> at::Tensor {
      TORCH_CHECK(gradient.numel() == 0, "trouble");
      return gradient;
    });
    const at::Tensor loss = (late * (parameters[1].tensor * 3)).sum();
    EXPECT_THROW(
        own ? void(Executor().backward(roots_of(loss), {})) : loss.backward(),
        c10::Error);
    EXPECT_EQ(notes.seen, (std::vector<size_t>{1}));
    EXPECT_EQ(notes.ends, 0);
    ASSERT_EQ(notes.failures.size(), 1);
    EXPECT_EQ(testing::contains(notes.failures[0], "trouble"), own);
  }
}

// One backward that comes bit by bit, as in a context of distributed autograd.
TEST(ReadyHooks, APassOfSeveralThreads) {
  const auto parameters = two();
  for (const bool well : {true, false}) {
    Notes notes(parameters);
    const ReadyHooks hooks(parameters, notes);
    autograd::GradientMap map;
    Executor executor;
    executor.open({.store = &map});
    for (const Parameter& parameter : parameters)
      executor.add_roots(
          {torch::autograd::impl::gradient_edge(parameter.tensor.sum())});
    for (const uint32_t group : {0U, 1U})
      std::thread([&] { executor.feed(group, {at::ones({})}); }).join();
    EXPECT_EQ(notes.seen, (std::vector<size_t>{0, 1}));
    EXPECT_EQ(notes.defined, (std::vector<bool>{true, true}));
    EXPECT_EQ(notes.ends, 0);
    std::thread([&] { well ? executor.close() : executor.drop("a reason"); }).join();
    EXPECT_EQ(notes.ends, well ? 1 : 0);
    EXPECT_EQ(
        notes.failures,
        well ? std::vector<std::string>() : std::vector<std::string>{"a reason"});
  }
}

TEST(ReadyHooks, HearOfAPassThatIsGone) {
  const auto parameters = two();
  Notes notes(parameters);
  const ReadyHooks hooks(parameters, notes);
  autograd::GradientMap map;
  {
    Executor executor;
    executor.open({.store = &map});
    executor.add_roots(
        {torch::autograd::impl::gradient_edge(parameters[0].tensor.sum())});
    executor.feed(0, {at::ones({})});
  }
  EXPECT_EQ(notes.failures, std::vector<std::string>{"its executor is gone"});
}

TEST(ReadyHooks, GoneWithTheObject) {
  const auto parameters = two();
  Notes notes(parameters);
  std::make_unique<ReadyHooks>(parameters, notes).reset();
  loss_of(parameters).backward();
  EXPECT_TRUE(notes.seen.empty());
  const ReadyHooks again(parameters, notes);
  loss_of(parameters).backward();
  EXPECT_EQ(notes.seen.size(), 2);
}

TEST(ReadyHooks, OneWrapperOnly) {
  auto parameters = two();
  Notes notes(parameters);
  const ReadyHooks hooks({parameters[1]}, notes);
  EXPECT_TRUE(testing::contains(
      testing::message_of<InvalidArgument>([&] { ReadyHooks(parameters, notes); }),
      "got b whose gradient is reduced already"));
  // The refused one has left nothing behind.
  const ReadyHooks other({parameters[0]}, notes);
}

TEST(ReadyHooks, DataOfAnotherKindIsNoticed) {
  auto parameters = two();
  Notes notes(parameters);
  const ReadyHooks hooks(parameters, notes);
  EXPECT_TRUE(hooks.is_current(0, parameters[0].tensor));
  parameters[0].tensor.data().add_(1);
  EXPECT_TRUE(hooks.is_current(0, parameters[0].tensor));
  parameters[0].tensor.set_data(at::ones({2}, at::kDouble));
  EXPECT_FALSE(hooks.is_current(0, parameters[0].tensor));
  EXPECT_TRUE(hooks.is_current(1, parameters[1].tensor));
}

}  // namespace
}  // namespace trireme::dp
