#include "trireme/autograd/dropout_module.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/testing/check.h"

namespace trireme::autograd {
namespace {

TEST(DropoutModule, DrawsForItsName) {
  const RandomScope scope(RandomContext{.seed = 4});
  const at::Tensor x = at::ones({4, 20});
  Dropout layer(DropoutOptions{.p = 0.3, .layer = "block.1"});
  const at::Tensor wanted = dropout(x, 0.3, layer_key("block.1"), true);
  EXPECT_TRUE(testing::same(layer->forward(x), wanted));
  const auto copy = std::dynamic_pointer_cast<DropoutImpl>(layer->clone());
  EXPECT_TRUE(testing::same(copy->forward(x), wanted));
  Dropout other(DropoutOptions{.p = 0.3, .layer = "block.2"});
  EXPECT_FALSE(at::equal(other->forward(x), wanted));
  layer->eval();
  EXPECT_TRUE(layer->forward(x).is_same(x));
}

}  // namespace
}  // namespace trireme::autograd
