#include "trireme/model/shared_parameters.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::model {
namespace {

using testing::contains;
using testing::message_of;
using Names = std::vector<std::vector<std::string>>;
const InitialValue kNormal{InitialValue::Kind::Normal, 1};

TEST(SharedParameters, TiedOnesAreOneTensor) {
  SharedParameters shared(Names{{"a", "b"}});
  const at::Tensor first = shared.make({"b", {2, 3}, kNormal}, {});
  EXPECT_TRUE(shared.make({"a", {2, 3}, kNormal}, {}).is_same(first));
  EXPECT_FALSE(shared.make({"c", {2, 3}, kNormal}, {}).is_same(first));
  EXPECT_EQ(shared.first_name("b"), "a");
  EXPECT_EQ(shared.first_name("c"), "c");
}

TEST(SharedParameters, AreDrawnForTheFirstName) {
  SharedParameters here(Names{{"a", "b"}}), there(Names{{"a", "b"}});
  EXPECT_TRUE(testing::same(
      here.make({"a", {2, 3}, kNormal}, {.seed = 1}),
      there.make({"b", {2, 3}, kNormal}, {.seed = 1})));
}

TEST(SharedParameters, RefuseWhatDoesNotFit) {
  SharedParameters shared(Names{{"a", "b"}});
  shared.make({"a", {2, 3}}, {});
  const std::string shape = message_of<InvalidArgument>([&] {
    shared.make({"b", {3, 2}}, {});
  });
  EXPECT_TRUE(contains(shape, "\"b\" of [3, 2] and \"a\" of [2, 3]"));
  const std::string message = message_of<InvalidArgument>([] {
    const SharedParameters twice(Names{{"a", "b"}, {"c", "b"}});
  });
  EXPECT_TRUE(contains(message, "\"b\" twice"));
}

}  // namespace
}  // namespace trireme::model
