// Names of tensors.
#include "trireme/pipe/named_tensors.h"

#include <ATen/ops/ones.h>

#include "trireme/testing/check.h"

namespace trireme::pipe {
namespace {

TEST(NamedTensors, AreJoinedWithADot) {
  EXPECT_EQ(join_name("block0", "fc.weight"), "block0.fc.weight");
  EXPECT_EQ(join_name("", "weight"), "weight");
}

TEST(NamedTensors, AreGivenOnceUnderTheFirstName) {
  const at::Tensor a = at::ones({2}), b = at::ones({2});
  const auto all =
      without_repeats({{"a", a}, {"b", b}, {"again", a}, {"view", a.view(2)}});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].first, "a");
  EXPECT_EQ(all[1].first, "b");
  EXPECT_TRUE(all[1].second.is_same(b));
  // A view is a tensor of its own to an optimizer.
  EXPECT_EQ(all[2].first, "view");
}

}  // namespace
}  // namespace trireme::pipe
