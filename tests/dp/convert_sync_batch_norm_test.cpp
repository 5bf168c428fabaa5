#include "trireme/dp/convert_sync_batch_norm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include "close.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::contains;
using testing::message_of;
using torch::nn::BatchNorm1d;
using torch::nn::BatchNorm1dImpl;
using torch::nn::BatchNorm2d;
using torch::nn::BatchNorm3d;
using torch::nn::Linear;
using torch::nn::Sequential;

/// Runs `body` with a group, for conversions that talk to nobody.
void with_group(const testing::RankBody& body) {
  testing::run_world(Backend::Local, 1, body);
}

/// A block with a Sequential inside, as users write them.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const Sequential& body)
      : layers(register_module("layers", body)) {}
  at::Tensor forward(const at::Tensor& x) { return x + layers->forward(x); }
  Sequential layers;
};
TORCH_MODULE(Block);

/// One that calls its layer by its type.
struct TypedImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return norm->forward(x); }
  BatchNorm1d norm = register_module("norm", BatchNorm1d(4));
};
TORCH_MODULE(Typed);

/// The same, ready to be shared.
struct ReadyImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return norm->forward(x); }
  SyncBatchNorm norm =
      register_module("norm", SyncBatchNorm(SyncBatchNormOptions{.num_features = 4}));
};
TORCH_MODULE(Ready);

Sequential small_model() {
  return Sequential(
      Linear(4, 4),
      BatchNorm1d(4),
      Block(Sequential(Linear(4, 4), BatchNorm1d(4))),
      Ready(),
      Linear(4, 2));
}

TEST(ConvertSyncBatchNormRanks, MakesAModelEqualTheWholeBatch) {
  testing::run_world(Backend::Local, 2, [](const comm::Group& world) {
    Sequential whole = small_model(), ours = small_model();
    for (const Sequential& model : {whole, ours})
      for (at::Tensor& values : model->parameters()) {
        const c10::NoGradGuard no_grad;
        values.copy_(at::sin(at::arange(1, values.numel() + 1)).view(values.sizes()));
      }
    EXPECT_EQ(convert_sync_batch_norm(*ours, world), 3U);
    EXPECT_EQ(convert_sync_batch_norm(*ours, world), 0U);
    const at::Tensor x = at::cos(at::arange(32)).view({8, 4});
    const at::Tensor wanted = whole->forward(x);
    const at::Tensor y = ours->forward(x.narrow(0, 4 * world.rank(), 4));
    EXPECT_TRUE(close(y, wanted.narrow(0, 4 * world.rank(), 4)));
    wanted.pow(2).sum().backward();
    y.pow(2).sum().backward();
    const auto named = whole->named_parameters();
    for (auto& item : ours->named_parameters()) {
      at::Tensor sum = item.value().grad().clone();
      comm::all_reduce(world, sum);
      EXPECT_TRUE(close(sum, named[item.key()].grad())) << item.key();
    }
    const auto buffers = whole->named_buffers();
    EXPECT_EQ(ours->named_buffers().size(), buffers.size());
    for (auto& item : ours->named_buffers())
      EXPECT_TRUE(close(item.value(), buffers[item.key()])) << item.key();
  });
}

TEST(ConvertSyncBatchNormRanks, KeepsWhatALayerHas) {
  with_group([](const comm::Group& world) {
    const auto options =
        torch::nn::BatchNormOptions(5).eps(0.25).momentum(std::nullopt);
    BatchNorm2d old(options);
    old->eval();
    old->bias.set_requires_grad(false);
    Sequential model(
        {{"norm", torch::nn::AnyModule(old)},
         {"last",
          torch::nn::AnyModule(
              BatchNorm3d(torch::nn::BatchNormOptions(5).affine(false)))}});
    EXPECT_EQ(convert_sync_batch_norm(*model, world), 2U);
    const auto& made = model->at<SyncBatchNormImpl>(0);
    EXPECT_TRUE(made.weight.is_same(old->weight));
    EXPECT_TRUE(made.running_mean.is_same(old->running_mean));
    EXPECT_TRUE(model->named_parameters()["norm.weight"].is_same(old->weight));
    EXPECT_TRUE(model->named_buffers()["norm.num_batches_tracked"].is_same(
        old->num_batches_tracked));
    EXPECT_FALSE(made.bias.requires_grad());
    EXPECT_FALSE(made.is_training());
    EXPECT_EQ(made.options().eps, 0.25);
    EXPECT_FALSE(made.options().momentum.has_value());
    EXPECT_EQ(made.options().group.size(), 1);
    EXPECT_TRUE(model->ptr(1)->is_training());
    EXPECT_FALSE(model->at<SyncBatchNormImpl>(1).weight.defined());
    EXPECT_EQ(model->named_children()[1].key(), "last");
    EXPECT_EQ(model->named_children()[1].value(), model->ptr(1));
  });
}

TEST(ConvertSyncBatchNormRanks, KeepsSharedLayersShared) {
  with_group([](const comm::Group& world) {
    BatchNorm1d shared(4);
    Block block(Sequential(Linear(4, 4), shared));
    Sequential model(shared, block, block, shared);
    EXPECT_EQ(convert_sync_batch_norm(*model, world), 1U);
    EXPECT_EQ(model->ptr(0), model->ptr(3));
    EXPECT_EQ(model->ptr(0), block->layers->ptr(1));
    EXPECT_NE(model->ptr(0)->as<SyncBatchNormImpl>(), nullptr);
    model->forward(at::rand({3, 4}));
    EXPECT_EQ(shared->num_batches_tracked.item<int64_t>(), 4);
  });
}

TEST(ConvertSyncBatchNormRanks, GoesThroughListsOfBlocks) {
  with_group([](const comm::Group& world) {
    torch::nn::ModuleList model(Block(Sequential(BatchNorm1d(4))), Ready());
    EXPECT_EQ(convert_sync_batch_norm(*model, world), 2U);
    Ready ready;
    EXPECT_EQ(convert_sync_batch_norm(*ready->norm, world), 1U);
    EXPECT_EQ(convert_sync_batch_norm(*ready->norm, world), 0U);
    EXPECT_EQ(convert_sync_batch_norm(*Linear(2, 2), world), 0U);
  });
}

TEST(ConvertSyncBatchNormRanks, NamesWhatItCannotReplace) {
  with_group([](const comm::Group& world) {
    Sequential model(BatchNorm1d(4), Block(Sequential(Typed())));
    const std::string message =
        message_of<NotSupported>([&] { convert_sync_batch_norm(*model, world); });
    EXPECT_TRUE(contains(message, "\"1.layers.0.norm\", a torch::nn::BatchNorm1dImpl"));
    EXPECT_TRUE(contains(message, "TypedImpl, which would go on calling it"));
    EXPECT_TRUE(contains(message, "hold it as dp::SyncBatchNorm"));
    EXPECT_NE(model->ptr(0)->as<BatchNorm1dImpl>(), nullptr) << "half of it was done";
    torch::nn::ModuleList list(BatchNorm1d(4));
    EXPECT_TRUE(contains(
        message_of<NotSupported>([&] { convert_sync_batch_norm(*list, world); }),
        "of a torch::nn::ModuleListImpl"));
  });
}

/// What a user has changed about a layer would be lost.
struct OtherNormImpl : torch::nn::BatchNorm2dImpl {
  using BatchNorm2dImpl::BatchNorm2dImpl;
  at::Tensor forward(const at::Tensor& x) { return 2 * BatchNorm2dImpl::forward(x); }
};

/// A Sequential with a layer beside those that it calls.
struct WithTail : torch::nn::SequentialImpl {
  BatchNorm1d tail = register_module("tail", BatchNorm1d(4));
};

TEST(ConvertSyncBatchNormRanks, RefusesOtherClasses) {
  with_group([](const comm::Group& world) {
    Sequential model(std::make_shared<OtherNormImpl>(3));
    EXPECT_TRUE(contains(
        message_of<NotSupported>([&] { convert_sync_batch_norm(*model, world); }),
        "OtherNormImpl, whose changes to its base would be lost"));
    WithTail tail;
    EXPECT_TRUE(contains(
        message_of<NotSupported>([&] { convert_sync_batch_norm(tail, world); }),
        "WithTail, which would go on"));
    BatchNorm1d alone(3);
    EXPECT_TRUE(contains(
        message_of<NotSupported>([&] { convert_sync_batch_norm(*alone, world); }),
        "use sync_batch_norm_from()"));
    EXPECT_TRUE(sync_batch_norm_from(*alone, world)->weight.is_same(alone->weight));
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>(
            [&] { sync_batch_norm_from(*Linear(2, 2), world); }),
        "got a torch::nn::LinearImpl"));
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { convert_sync_batch_norm(*model, {}); }),
        "expected a group"));
  });
}

}  // namespace
}  // namespace trireme::dp
