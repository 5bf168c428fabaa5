#include "trireme/dp/visit_tensors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace elsewhere {

struct Output {
  at::Tensor logits;
  std::vector<at::Tensor> features;
  int count = 0;
};
template <class F>
void visit_tensors(Output& output, F&& f) {
  f(output.logits);
  for (at::Tensor& feature : output.features)
    f(feature);
}

}  // namespace elsewhere

namespace trireme::dp {
namespace {

/// How many tensors are found; each is replaced by ones.
template <class T>
int count(T& value) {
  int found = 0;
  visit_tensors(value, [&](at::Tensor& tensor) {
    ++found;
    tensor = at::ones({1});
  });
  return found;
}

TEST(VisitTensors, EveryKindOfValue) {
  at::Tensor one;
  EXPECT_EQ(count(one), 1);
  EXPECT_TRUE(one.defined());
  std::vector<at::Tensor> some(3);
  EXPECT_EQ(count(some), 3);
  EXPECT_TRUE(some[2].defined());
  std::array<at::Tensor, 2> two;
  EXPECT_EQ(count(two), 2);
  std::map<std::string, at::Tensor> names{{"a", {}}, {"b", {}}};
  EXPECT_EQ(count(names), 2);
  std::unordered_map<int, at::Tensor> numbers{{1, {}}};
  EXPECT_EQ(count(numbers), 1);
  std::optional<at::Tensor> none;
  EXPECT_EQ(count(none), 0);
  none = at::Tensor();
  EXPECT_EQ(count(none), 1);
  std::pair<at::Tensor, double> pair;
  EXPECT_EQ(count(pair), 1);
}

TEST(VisitTensors, NestedToAnyDepth) {
  std::tuple<
      at::Tensor,
      std::vector<std::map<std::string, std::optional<at::Tensor>>>,
      std::pair<int, std::string>,
      std::tuple<>>
      deep{{}, {{{"x", at::Tensor()}, {"y", {}}}, {{"z", at::Tensor()}}}, {1, "s"}, {}};
  EXPECT_EQ(count(deep), 3);
}

TEST(VisitTensors, TypesOfOnesOwn) {
  elsewhere::Output output{{}, std::vector<at::Tensor>(2)};
  EXPECT_EQ(count(output), 3);
  std::vector<std::optional<elsewhere::Output>> many{output, {}, output};
  EXPECT_EQ(count(many), 6);
}

}  // namespace
}  // namespace trireme::dp
