#include "trireme/model/decoder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "small_models.h"
#include "trireme/core/error.h"
#include "trireme/model/build_stages.h"
#include "trireme/model/gpt2.h"
#include "trireme/model/llama.h"
#include "trireme/testing/check.h"

namespace trireme::model {
namespace {

using testing::contains;
using testing::message_of;

at::Tensor full_forward(const pipe::LayerList& layers, const at::Tensor& ids) {
  const at::NoGradGuard no_grad;
  return pipe::run_layers(layers, {ids}).at(0);
}

// Attention over one query and over many sums in another order.
void decoded_expect_close(const at::Tensor& got, const at::Tensor& wanted) {
  ASSERT_EQ(got.sizes(), wanted.sizes());
  EXPECT_TRUE(at::allclose(got, wanted, 1.3e-6, 1e-5)) << (got - wanted).abs().max();
}

void expect_decodes(const ModelPlan& plan) {
  const pipe::LayerList layers = build_layers(plan, {.seed = 4});
  const at::Tensor ids = some_tokens(2, 20);
  const at::Tensor wanted = full_forward(layers, ids);
  Decoder decoder(layers);
  EXPECT_TRUE(decoder.supports_cache());
  for (int round = 0; round < 2; ++round) {
    std::vector<at::Tensor> got;
    int64_t at = 0;
    for (const int64_t t : {7, 1, 1, 5, 1, 1, 1, 1, 1, 1}) {
      got.push_back(decoder.step(ids.narrow(1, at, t)));
      at += t;
      EXPECT_EQ(decoder.length(), at);
    }
    decoded_expect_close(at::cat(got, 1), wanted);
    decoder.reset();
    EXPECT_EQ(decoder.length(), 0);
  }
}

TEST(Decoder, EqualsTheFullForward) {
  expect_decodes(plan_gpt2(small_gpt2()));
  expect_decodes(plan_llama(small_llama()));
}

TEST(Decoder, WorksStageByStage) {
  const ModelPlan plan = plan_llama(small_llama());
  const at::Tensor ids = some_tokens(2, 9);
  const at::Tensor wanted = full_forward(build_layers(plan, {}), ids);
  const auto stages = build_stages(plan, {{0, 2}, {2, 5}}, {});
  Decoder first(stages[0]), second(stages[1]);
  std::vector<at::Tensor> got;
  for (int64_t i = 0; i < 9; ++i)
    got.push_back(second.step(first.step(ids.narrow(1, i, 1))));
  decoded_expect_close(at::cat(got, 1), wanted);
}

TEST(Decoder, RunsAgainWhatHasNoCache) {
  const ModelPlan plan = plan_gpt2(small_gpt2());
  pipe::LayerList layers = build_layers(plan, {});
  layers.insert(
      layers.begin() + 2,
      pipe::layer("mean", pipe::TensorFunction([](const at::Tensor& x) {
                    return x.cumsum(1) * 0.5;
                  })));
  const at::Tensor ids = some_tokens(2, 6);
  Decoder decoder(layers);
  EXPECT_FALSE(decoder.supports_cache());
  const at::Tensor first = decoder.step(ids.narrow(1, 0, 4));
  const at::Tensor second = decoder.step(ids.narrow(1, 4, 2));
  decoded_expect_close(at::cat({first, second}, 1), full_forward(layers, ids));
}

TEST(Decoder, DropsNothingAndPutsTheModeBack) {
  Gpt2Config config = small_gpt2();
  config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = 0.5;
  const pipe::LayerList layers = build_layers(plan_gpt2(config), {});
  {
    Decoder decoder(layers);
    EXPECT_FALSE(layers[1].module->is_training());
    decoder.step(some_tokens(1, 3));  // dropout() would want a random context
  }
  EXPECT_TRUE(layers[1].module->is_training());
}

TEST(Decoder, RefusesAndGoesOn) {
  const pipe::LayerList layers = build_layers(plan_gpt2(small_gpt2()), {});
  Decoder decoder(layers);
  const at::Tensor ids = some_tokens(2, 32);
  const at::Tensor wanted = full_forward(layers, ids);
  decoder.step(ids.narrow(1, 0, 30));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { decoder.step(some_tokens(3, 1)); }),
      "new positions [2, 1 or more"));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { decoder.step(some_tokens(2, 3)); }),
      "at most 32 tokens (\"n_positions\"), got 33"));
  EXPECT_THROW(decoder.step(at::Tensor()), InvalidArgument);
  EXPECT_THROW(decoder.step(at::zeros({2, 0}, at::kLong)), InvalidArgument);
  decoded_expect_close(decoder.step(ids.narrow(1, 30, 2)), wanted.narrow(1, 30, 2));
}

}  // namespace
}  // namespace trireme::model
