#include "trireme/bench/pipe_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

TEST(BenchPipeModel, LayersAreTheSameOnEveryRank) {
  for (const char* layer : {"block", "linear", "norm"}) {
    const PipeModel model{
        .layer = layer, .width = 64, .sequence = 4, .microbatches = 2};
    const at::Tensor x = make_batch(model, 1);
    EXPECT_EQ(x.sizes(), (at::IntArrayRef{2, 4, 64}));
    const at::Tensor once = make_layer(model, 3)->forward({x}).at(0);
    EXPECT_TRUE(at::equal(once, make_layer(model, 3)->forward({x}).at(0))) << layer;
    EXPECT_FALSE(at::equal(once, make_layer(model, 4)->forward({x}).at(0))) << layer;
    EXPECT_EQ(once.sizes(), x.sizes());
  }
}

TEST(BenchPipeModel, AStageIsItsLayersOneAfterTheOther) {
  const PipeModel model{
      .layer = "linear", .width = 8, .sequence = 2, .microbatches = 1};
  const at::Tensor x = make_batch(model, 1);
  const at::Tensor two =
      make_layer(model, 2)->forward(make_layer(model, 1)->forward({x})).at(0);
  const auto stage = make_layers(model, 1, 3);
  EXPECT_TRUE(at::equal(stage->forward({x}).at(0), two));
  EXPECT_EQ(stage->parameters().size(), 4U);
  EXPECT_EQ(stage->parameters()[0].first, "1.w0");
}

TEST(BenchPipeModel, RefusesUnknownLayers) {
  EXPECT_THROW(make_layer({.layer = "conv"}, 0), InvalidArgument);
}

TEST(BenchPipeModel, ABlockHasTwelveParameters) {
  EXPECT_EQ(make_layer({.width = 64}, 0)->parameters().size(), 12U);
}

}  // namespace
}  // namespace trireme::bench
