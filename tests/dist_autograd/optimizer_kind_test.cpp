#include "trireme/dist_autograd/optimizer_kind.h"

#include <limits>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"

namespace trireme::dist_autograd {
namespace {

using testing::contains;
using testing::message_of;

const std::vector<OptimizerKind> kAll{
    Sgd{.momentum = 0.9},
    Sgd{},
    Adam{},
    AdamW{.amsgrad = true},
    Adagrad{},
    RmsProp{.momentum = 0.9, .centered = true},
    RmsProp{}};

OptimizerKind after_a_trip(const OptimizerKind& kind) {
  rpc::ValueWriter writer;
  rpc::write_value(writer, kind);
  const rpc::Values values = writer.take();
  rpc::ValueReader reader(values, "an optimizer");
  OptimizerKind read = rpc::read_value<OptimizerKind>(reader);
  reader.expect_end();
  return read;
}

TEST(OptimizerKind, Travels) {
  const OptimizerKind kind =
      AdamW{.lr = 0.5, .beta1 = 0.1, .beta2 = 0.2, .eps = 0.3, .amsgrad = true};
  const OptimizerKind read = after_a_trip(kind);
  ASSERT_TRUE(std::holds_alternative<AdamW>(read));
  const AdamW& adam = std::get<AdamW>(read);
  EXPECT_EQ(adam.lr, 0.5);
  EXPECT_EQ(adam.beta1, 0.1);
  EXPECT_EQ(adam.beta2, 0.2);
  EXPECT_EQ(adam.eps, 0.3);
  EXPECT_EQ(adam.weight_decay, 1e-2);
  EXPECT_TRUE(adam.amsgrad);
  for (const OptimizerKind& each : kAll)
    EXPECT_EQ(after_a_trip(each).index(), each.index());
  EXPECT_THROW(after_a_trip(Adam{.lr = -1}), InvalidArgument);
}

TEST(OptimizerKind, UnknownOnesAreRefused) {
  rpc::ValueWriter writer;
  writer.bytes().u8(9);
  const rpc::Values values = writer.take();
  rpc::ValueReader reader(values, "an optimizer");
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { rpc::read_value<OptimizerKind>(reader); }),
      "one of 5 optimizers, got number 9"));
}

TEST(OptimizerKind, OptionsThatCannotBeAreRefused) {
  const auto refused = [](const OptimizerKind& kind) {
    return message_of<InvalidArgument>([&] { check(kind); });
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(contains(refused(Sgd{.lr = 0}), "Sgd with lr above 0 and finite, got 0"));
  EXPECT_TRUE(contains(refused(Adam{.lr = nan}), "Adam with lr above 0"));
  EXPECT_TRUE(contains(refused(RmsProp{.lr = infinity}), "RmsProp with lr above 0"));
  EXPECT_TRUE(contains(refused(Sgd{.momentum = -1}), "momentum of at least 0"));
  EXPECT_TRUE(contains(refused(Sgd{.dampening = nan}), "a finite dampening"));
  EXPECT_TRUE(contains(refused(Sgd{.nesterov = true}), "momentum 0 and dampening 0"));
  EXPECT_TRUE(contains(
      refused(Sgd{.momentum = 1, .dampening = 1, .nesterov = true}), "dampening 1"));
  EXPECT_TRUE(contains(refused(Adam{.beta1 = 1}), "beta1 of at least 0 and below 1"));
  EXPECT_TRUE(contains(refused(AdamW{.beta2 = -0.1}), "AdamW with beta2"));
  EXPECT_TRUE(contains(refused(AdamW{.eps = -1}), "eps"));
  EXPECT_TRUE(contains(refused(Adagrad{.lr_decay = -1}), "lr_decay"));
  EXPECT_TRUE(contains(refused(RmsProp{.alpha = nan}), "alpha"));
  for (const OptimizerKind& kind : kAll)
    check(kind);
}

at::Tensor sparse_gradient() {
  return at::sparse_coo_tensor(
      at::tensor({1, 1}, at::kLong).view({1, 2}), at::ones({2, 2}), {3, 2});
}

// What we say of sparse gradients is what torch does.
TEST(OptimizerKind, TakesSparseGradientsWhereTorchDoes) {
  std::vector<OptimizerKind> kinds = kAll;
  kinds.push_back(Sgd{.weight_decay = 0.1});
  kinds.push_back(Adagrad{.weight_decay = 0.1});
  kinds.push_back(Sgd{.momentum = 0.9, .nesterov = true});
  int takes = 0;
  for (const OptimizerKind& kind : kinds) {
    at::Tensor parameter = at::zeros({3, 2});
    const auto optimizer = make_optimizer(kind, {parameter});
    bool stepped = true;
    for (int step = 0; step < 2; ++step)
      try {
        parameter.mutable_grad() = sparse_gradient();
        optimizer->step();
      } catch (const std::exception&) {
        stepped = false;
      }
    if (takes_sparse(kind)) {
      EXPECT_TRUE(stepped) << name_of(kind);
      EXPECT_LT(parameter[1][0].item<double>(), 0) << name_of(kind);
      ++takes;
    } else {
      EXPECT_FALSE(stepped) << name_of(kind);
    }
  }
  EXPECT_EQ(takes, 4);
}

TEST(OptimizerKind, TorchGetsAllOptions) {
  const auto optimizer = make_optimizer(
      AdamW{
          .lr = 0.5,
          .beta1 = 0.1,
          .beta2 = 0.2,
          .eps = 0.3,
          .weight_decay = 0.4,
          .amsgrad = true},
      {at::zeros({2})});
  const auto& options = static_cast<const torch::optim::AdamWOptions&>(
      optimizer->param_groups().at(0).options());
  EXPECT_EQ(options.lr(), 0.5);
  EXPECT_EQ(options.betas(), std::make_tuple(0.1, 0.2));
  EXPECT_EQ(options.eps(), 0.3);
  EXPECT_EQ(options.weight_decay(), 0.4);
  EXPECT_TRUE(options.amsgrad());
}

}  // namespace
}  // namespace trireme::dist_autograd
