#include "trireme/model/planned_module.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/model/shared_parameters.h"

namespace trireme::model {
namespace {

struct Probe : PlannedModule {
  using PlannedModule::parameter;
  using PlannedModule::PlannedModule;
};

TEST(PlannedModule, NamesAreThoseOfThePlan) {
  SharedParameters shared;
  const Probe probe(
      {"h.0", {{"h.0.attn.w", {2}}, {"h.0.attn.b", {3}}, {"h.0.ln", {4}}}}, {}, shared);
  std::vector<std::string> names;
  for (const auto& item : probe.named_parameters())
    names.push_back(item.key());
  EXPECT_EQ(names, (std::vector<std::string>{"ln", "attn.w", "attn.b"}));
  EXPECT_EQ(probe.parameter("attn.b").size(0), 3);
  EXPECT_TRUE(probe.parameter("attn.b").requires_grad());
  EXPECT_FALSE(probe.parameter("attn.c").defined());
}

TEST(PlannedModule, AParameterOfAnotherLayerIsOurMistake) {
  SharedParameters shared;
  EXPECT_THROW(Probe({"h.0", {{"h.1.w", {2}}}}, {}, shared), InternalError);
}

TEST(PlannedModule, ACheckpointComputesAgain) {
  int runs = 0;
  const at::Tensor w = at::ones({3}).set_requires_grad(true);
  const pipe::Layer layer =
      checkpointed(pipe::layer("a", pipe::TensorFunction([&](const at::Tensor& x) {
                                 ++runs;
                                 return (x * w).exp();
                               })));
  const at::Tensor x = at::ones({3});
  const at::Tensor y = layer.forward({x})[0];
  EXPECT_EQ(runs, 1);
  y.sum().backward();
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(at::allclose(w.grad(), x.exp()));
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(layer.forward({x})[0].requires_grad());
  EXPECT_EQ(runs, 3);
}

}  // namespace
}  // namespace trireme::model
