#include "trireme/dp/parameter.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::dp {
namespace {

using testing::contains;
using testing::message_of;

Parameter named(const std::string& name, bool trained = true) {
  return {name, at::zeros({2}).set_requires_grad(trained)};
}

TEST(Parameter, WhatIsTrained) {
  const Parameter a = named("a");
  const Parameter twice{"twice", a.tensor};
  const auto kept =
      trained_parameters({a, twice, named("b", false), named("c")}, {"c"});
  ASSERT_EQ(kept.size(), 1);
  EXPECT_EQ(kept[0].name, "a");
}

TEST(Parameter, NothingToTrain) {
  EXPECT_THROW(trained_parameters({}, {}), InvalidArgument);
  EXPECT_THROW(trained_parameters({named("b", false)}, {}), InvalidArgument);
  EXPECT_THROW(trained_parameters({named("a")}, {"a"}), InvalidArgument);
}

TEST(Parameter, WhatCannotBe) {
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] {
        trained_parameters({named("a")}, {"b", "a"});
      }),
      "got b, which the model does not have"));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] {
        trained_parameters({{"lazy", {}}}, {});
      }),
      "got lazy without"));
  const at::Tensor leaf = at::zeros({2}).requires_grad_();
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] {
        check_parameters({{"made", leaf * 2}});
      }),
      "got made, which was computed"));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] {
        check_parameters({{"whole", at::zeros({2}, at::kLong)}});
      }),
      "got whole of Long"));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([] {
        check_parameters({{"far", at::zeros({2}, at::TensorOptions(at::kMeta))}});
      }),
      "got far on meta"));
  check_parameters({{"z", at::zeros({2}, at::kComplexFloat).requires_grad_()}});
}

}  // namespace
}  // namespace trireme::dp
