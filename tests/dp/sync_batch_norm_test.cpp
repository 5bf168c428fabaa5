#include "trireme/dp/sync_batch_norm.h"

#include <cstdlib>
#include <numeric>
#include <sstream>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/any.h>
#include <torch/serialize.h>

#include "close.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::contains;
using testing::message_of;

at::Tensor layer_random(at::IntArrayRef sizes, uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kFloat);
}

/// A batch, and how its rows are dealt out to ranks.
struct LayerCase {
  /// After the dim of the samples; begins with the channels.
  std::vector<int64_t> sample;
  std::vector<int64_t> rows;
  SyncBatchNormOptions options = {};
  at::ScalarType type = at::kFloat;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
};

/// torch's layer for inputs of so many dims.
torch::nn::AnyModule whole_layer(const SyncBatchNormOptions& ours, size_t dims) {
  const auto options = torch::nn::BatchNormOptions(ours.num_features)
                           .eps(ours.eps)
                           .momentum(ours.momentum)
                           .affine(ours.affine)
                           .track_running_stats(ours.track_running_stats);
  if (dims <= 3)
    return torch::nn::AnyModule(torch::nn::BatchNorm1d(options));
  if (dims == 4)
    return torch::nn::AnyModule(torch::nn::BatchNorm2d(options));
  return torch::nn::AnyModule(torch::nn::BatchNorm3d(options));
}

void set_parameters(torch::nn::Module& layer) {
  const c10::NoGradGuard no_grad;
  for (auto& item : layer.named_parameters())
    item.value().copy_(
        layer_random(item.value().sizes(), item.key() == "bias" ? 8 : 9));
}

/// Both sides of one step: outputs, and gradients of a loss that weighs every value
/// differently.
struct Step {
  at::Tensor y, x;
};

template <class Forward>
Step run_step(const at::Tensor& batch, const at::Tensor& factors, Forward&& forward) {
  Step step;
  step.x = batch.detach().clone(at::MemoryFormat::Preserve).set_requires_grad(true);
  step.y = forward(step.x);
  (step.y * factors).sum().backward();
  return step;
}

/// Three steps and one in eval on this rank, against one layer that sees the whole
/// batch.
void equals_whole_batch(const comm::Group& world, const LayerCase& one) {
  SyncBatchNormOptions options = one.options;
  options.num_features = one.sample[0];
  options.group = world;
  SyncBatchNorm ours(options);
  torch::nn::AnyModule theirs = whole_layer(options, one.sample.size() + 1);
  set_parameters(*ours);
  set_parameters(*theirs.ptr());
  const auto rank = static_cast<std::ptrdiff_t>(world.rank());
  const int64_t first =
      std::accumulate(one.rows.begin(), one.rows.begin() + rank, int64_t{0});
  const int64_t rows = one.rows[static_cast<size_t>(rank)];
  std::vector<int64_t> shape = one.sample;
  shape.insert(
      shape.begin(), std::accumulate(one.rows.begin(), one.rows.end(), int64_t{0}));
  for (uint64_t step = 0; step < 3; ++step) {
    const at::Tensor batch = layer_random(shape, 10 + step)
                                 .mul(2)
                                 .add(3)
                                 .to(one.type)
                                 .contiguous(one.format);
    const at::Tensor factors = layer_random(shape, 20 + step).to(one.type);
    const Step whole = run_step(
        batch, factors, [&](const at::Tensor& x) { return theirs.forward(x); });
    const Step part = run_step(
        batch.narrow(0, first, rows),
        factors.narrow(0, first, rows),
        [&](const at::Tensor& x) { return ours->forward(x); });
    EXPECT_TRUE(close(part.y, whole.y.narrow(0, first, rows))) << "outputs";
    EXPECT_TRUE(close(part.x.grad(), whole.x.grad().narrow(0, first, rows)))
        << "gradients of inputs";
  }
  const auto named = theirs.ptr()->named_parameters();
  for (auto& item : ours->named_parameters()) {
    at::Tensor sum = item.value().grad().clone();
    comm::all_reduce(world, sum);
    EXPECT_TRUE(close(sum, named[item.key()].grad())) << "gradient of " << item.key();
  }
  const auto buffers = theirs.ptr()->named_buffers();
  EXPECT_EQ(ours->named_buffers().size(), buffers.size());
  for (auto& item : ours->named_buffers())
    EXPECT_TRUE(close(item.value(), buffers[item.key()])) << item.key();
  if (!options.track_running_stats || rows == 0)
    return;
  ours->eval();
  theirs.ptr()->eval();
  const at::Tensor own = layer_random(shape, 30).to(one.type).narrow(0, first, rows);
  EXPECT_TRUE(close(ours->forward(own), theirs.forward(own))) << "eval";
}

void check(Backend backend, const LayerCase& one) {
  testing::run_world(
      backend, static_cast<int>(one.rows.size()), [&](const comm::Group& world) {
        SCOPED_TRACE(text("rank ", world.rank(), " of ", one.rows.size()));
        equals_whole_batch(world, one);
      });
}

void check_shapes(Backend backend) {
  check(backend, {.sample = {5}, .rows = {6, 6}});
  check(backend, {.sample = {3, 7}, .rows = {4, 4}});
  check(backend, {.sample = {4, 5, 6}, .rows = {2, 2, 2, 2}});
  check(backend, {.sample = {2, 3, 4, 2}, .rows = {3, 3}});
}

void check_uneven(Backend backend) {
  check(backend, {.sample = {5}, .rows = {9, 1}});
  check(backend, {.sample = {3, 4, 4}, .rows = {1, 5, 2, 3}});
  check(backend, {.sample = {3, 4, 4}, .rows = {4, 0}});
  check(backend, {.sample = {6}, .rows = {0, 3, 0, 8}});
  check(backend, {.sample = {4}, .rows = {1, 1}});  // more than one value in all
}

void check_options(Backend backend) {
  const std::vector<int64_t> sample{3, 4}, rows{3, 5};
  check(backend, {.sample = sample, .rows = rows, .options = {.affine = false}});
  check(
      backend, {.sample = sample, .rows = rows, .options = {.momentum = std::nullopt}});
  check(backend, {.sample = sample, .rows = rows, .options = {.momentum = 0.7}});
  check(backend, {.sample = sample, .rows = rows, .options = {.eps = 0.1}});
  check(
      backend,
      {.sample = sample, .rows = rows, .options = {.track_running_stats = false}});
}

TEST(SyncBatchNormRanks, EqualsTheWholeBatch) {
  check_shapes(Backend::Local);
}

TEST(SyncBatchNormProcs, EqualsTheWholeBatch) {
  check_shapes(Backend::Shm);
}

TEST(SyncBatchNormRanks, TakesUnevenBatches) {
  check_uneven(Backend::Local);
}

TEST(SyncBatchNormProcs, TakesUnevenBatches) {
  check_uneven(Backend::Shm);
}

TEST(SyncBatchNormRanks, HasTheOptionsOfBatchNorm) {
  check_options(Backend::Local);
}

TEST(SyncBatchNormProcs, HasTheOptionsOfBatchNorm) {
  check_options(Backend::Shm);
}

TEST(SyncBatchNormRanks, TakesOtherMemoryFormats) {
  check(
      Backend::Local,
      {.sample = {4, 3, 5}, .rows = {2, 3}, .format = at::MemoryFormat::ChannelsLast});
  check(
      Backend::Local,
      {.sample = {4, 3, 5, 2},
       .rows = {2, 3},
       .format = at::MemoryFormat::ChannelsLast3d});
}

TEST(SyncBatchNormRanks, EqualsBatchNormOnOneRank) {
  check(Backend::Local, {.sample = {3}, .rows = {8}});
  check(Backend::Local, {.sample = {3, 4, 5}, .rows = {4}});
}

// Inputs of few digits are computed in float32 here and in float32 there, and rounded
// once at the end.
TEST(SyncBatchNormRanks, ComputesShortTypesInFloat) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf})
    testing::run_world(Backend::Local, 2, [type](const comm::Group& world) {
      SyncBatchNorm ours(SyncBatchNormOptions{.num_features = 3, .group = world});
      const at::Tensor whole = layer_random({40, 3}, 1).add(10).to(type);
      const at::Tensor x =
          whole.narrow(0, 20 * world.rank(), 20).clone().set_requires_grad(true);
      const at::Tensor y = ours->forward(x);
      const at::Tensor wanted =
          at::batch_norm(whole.to(at::kFloat), {}, {}, {}, {}, true, 0, 1e-5, false);
      const double digit = type == at::kHalf ? 1e-3 : 8e-3;
      EXPECT_TRUE(
          close(y, wanted.to(type).narrow(0, 20 * world.rank(), 20), digit, 1e-4));
      y.sin().sum().backward();
      EXPECT_EQ(x.grad().scalar_type(), type);
      EXPECT_EQ(ours->weight.grad().scalar_type(), at::kFloat);
      EXPECT_TRUE(close(ours->running_mean, 0.1 * whole.to(at::kFloat).mean(0)));
      ours->to(type);
      EXPECT_EQ(ours->forward(x).scalar_type(), type);
      EXPECT_EQ(ours->running_mean.scalar_type(), type);
      ours->eval();
      EXPECT_EQ(ours->forward(x).scalar_type(), type);
    });
}

TEST(SyncBatchNormRanks, RefusesOneValueOnAllRanksAlike) {
  testing::run_world(Backend::Local, 2, [](const comm::Group& world) {
    SyncBatchNorm layer(SyncBatchNormOptions{.num_features = 3, .group = world});
    const at::Tensor x = at::ones({world.rank(), 3});
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] { layer->forward(x); }),
        "[dp] expected more than one value a channel"));
    // All are still in step.
    EXPECT_EQ(layer->forward(at::ones({1, 3})).size(0), 1);
    EXPECT_EQ(layer->num_batches_tracked.item<int64_t>(), 1);
  });
}

TEST(SyncBatchNormRanks, TakesNoSamplesAtAll) {
  testing::run_world(Backend::Local, 2, [](const comm::Group& world) {
    SyncBatchNorm layer(SyncBatchNormOptions{.num_features = 3, .group = world});
    const at::Tensor x = at::empty({0, 3, 2}).set_requires_grad(true);
    const at::Tensor y = layer->forward(x);
    EXPECT_EQ(y.sizes(), x.sizes());
    y.sum().backward();
    EXPECT_TRUE(at::equal(layer->weight.grad(), at::zeros({3})));
    EXPECT_TRUE(at::equal(layer->running_var, at::ones({3})));
  });
}

TEST(SyncBatchNormRanks, TellsOfAPeerThatRefusesItsInput) {
  bool noticed = false;
  const auto body = [&](const comm::Group& world) {
    SyncBatchNorm layer(SyncBatchNormOptions{.num_features = 3, .group = world});
    if (world.rank() == 1)
      layer->forward(at::ones({4, 2}));
    const std::string message = message_of<PeerError>([&] {
      layer->forward(at::ones({4, 3}));
    });
    noticed = contains(message, "channels");
  };
  EXPECT_THROW(testing::run_world(Backend::Local, 2, body), InvalidArgument);
  EXPECT_TRUE(noticed);
}

TEST(SyncBatchNormProcs, TellsOfAPeerThatDies) {
  constexpr int kNoticed = 7;
  testing::Processes processes;
  processes.start_ranks(testing::fresh_job_name(), 4, [&](const comm::Group& world) {
    SyncBatchNorm layer(SyncBatchNormOptions{.num_features = 3, .group = world});
    layer->forward(at::ones({4, 3}));
    if (world.rank() == 2)
      std::_Exit(3);  // as if killed: nothing is said to the others
    try {
      layer->forward(at::ones({4, 3}));
    } catch (const PeerError& error) {
      return error.rank() == 2 ? kNoticed : 1;
    }
    return 2;
  });
  const auto endings = processes.wait(std::chrono::seconds(20));
  for (size_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(endings[rank].exit_code, rank == 2 ? 3 : kNoticed) << rank;
}

TEST(SyncBatchNorm, RefusesWhatCannotBe) {
  const auto refusal = [](const SyncBatchNormOptions& options) {
    return message_of<InvalidArgument>([&] { SyncBatchNorm layer(options); });
  };
  EXPECT_TRUE(contains(refusal({}), "[dp] expected a positive number of features"));
  EXPECT_TRUE(contains(refusal({.num_features = 2, .eps = -1}), "got -1"));
  EXPECT_TRUE(contains(refusal({.num_features = 2, .momentum = 1.5}), "got 1.5"));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] {
        SyncBatchNorm layer(
            SyncBatchNormOptions{.num_features = 2}, SyncBatchNormTensors{});
      }),
      "expected the tensors that the options"));
}

TEST(SyncBatchNorm, RefusesOtherInputs) {
  SyncBatchNorm layer(SyncBatchNormOptions{.num_features = 3});
  const auto refusal = [&](const at::Tensor& x) {
    return message_of<InvalidArgument>([&] { layer->forward(x); });
  };
  EXPECT_TRUE(contains(
      refusal(at::ones({2, 4, 5})),
      "with 3 channels in dim 1 for SyncBatchNorm, got "
      "Float of the shape [2, 4, 5]"));
  EXPECT_TRUE(contains(refusal(at::ones({3})), "2 to 5 dims"));
  EXPECT_TRUE(contains(refusal(at::ones({2, 3, 1, 1, 1, 1})), "2 to 5 dims"));
  EXPECT_TRUE(contains(refusal(at::ones({2, 3}, at::kLong)), "got Long"));
  EXPECT_TRUE(contains(refusal({}), "an undefined tensor"));
  EXPECT_TRUE(contains(refusal(at::ones({1, 3})), "more than one value"));
  layer->eval();
  EXPECT_EQ(layer->forward(at::ones({1, 3})).size(0), 1);
  EXPECT_TRUE(contains(refusal(at::ones({2, 4})), "3 channels"));
}

// In eval without running statistics torch uses those of the batch, and so do we.
TEST(SyncBatchNormRanks, IsAloneInEval) {
  testing::run_world(Backend::Local, 2, [](const comm::Group& world) {
    SyncBatchNorm layer(SyncBatchNormOptions{
        .num_features = 3, .track_running_stats = false, .group = world});
    layer->eval();
    if (world.rank() == 1)
      return;
    const at::Tensor x = layer_random({6, 3}, 4);
    const at::Tensor wanted = at::batch_norm(x, {}, {}, {}, {}, true, 0, 1e-5, false);
    EXPECT_TRUE(close(layer->forward(x), wanted));
    EXPECT_TRUE(contains(
        message_of<InvalidArgument>([&] {
          layer->forward(at::ones({1, 3}));
        }),
        "more than one value"));
  });
}

TEST(SyncBatchNorm, IsAModuleLikeAnyOther) {
  SyncBatchNorm layer(SyncBatchNormOptions{.num_features = 3});
  const at::Tensor x = layer_random({6, 3}, 4);
  layer->forward(x);
  const auto copy = std::dynamic_pointer_cast<SyncBatchNormImpl>(layer->clone());
  EXPECT_TRUE(testing::same(copy->running_var, layer->running_var));
  copy->forward(x);
  EXPECT_FALSE(at::equal(copy->running_var, layer->running_var));
  EXPECT_EQ(copy->num_batches_tracked.item<int64_t>(), 2);
  std::ostringstream out;
  out << *layer;
  EXPECT_EQ(
      out.str(),
      "trireme::dp::SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=true, "
      "track_running_stats=true, ranks=1)");
  // An archive of ours serves torch's layer.
  std::stringstream file;
  torch::save(layer.ptr(), file);
  torch::nn::BatchNorm1d theirs(3);
  torch::load(theirs, file);
  EXPECT_TRUE(testing::same(theirs->running_var, layer->running_var));
}

}  // namespace
}  // namespace trireme::dp
