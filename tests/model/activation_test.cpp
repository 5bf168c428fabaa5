#include "trireme/model/activation.h"

#include <cmath>

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

namespace trireme::model {
namespace {

double at_one(const char* name) {
  return activate(at::tensor({1.0}), *find_activation(name)).item<double>();
}

TEST(Activation, IsWhatTheNameSays) {
  EXPECT_NEAR(at_one("gelu"), 0.8413447460685429, 1e-12);
  const double tanh = 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (1 + 0.044715)));
  EXPECT_NEAR(at_one("gelu_new"), tanh, 1e-12);
  EXPECT_NEAR(at_one("gelu_pytorch_tanh"), tanh, 1e-12);
  EXPECT_EQ(at_one("relu"), 1);
  EXPECT_NEAR(at_one("silu"), 1 / (1 + std::exp(-1)), 1e-12);
  EXPECT_EQ(at_one("swish"), at_one("silu"));
}

TEST(Activation, OthersAreNotFound) {
  EXPECT_FALSE(find_activation("mish"));
  EXPECT_FALSE(find_activation(""));
  EXPECT_NE(activation_names().find("gelu_new, "), std::string::npos);
}

}  // namespace
}  // namespace trireme::model
