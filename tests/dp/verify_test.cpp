#include "trireme/dp/verify.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::dp {
namespace {

using testing::Backend;
using testing::contains;
using testing::message_of;
using testing::run_world;
using testing::same;

/// What every rank says if rank 1 of three has another line.
void expect_difference(
    const std::vector<std::string>& all,
    const std::vector<std::string>& odd,
    const std::string& part) {
  run_world(Backend::Local, 3, [&](const comm::Group& group) {
    const std::string message = message_of<InvalidArgument>(
        [&] { verify_same(group, "model", group.rank() == 1 ? odd : all); });
    EXPECT_TRUE(contains(message, "expected the same model on all ranks"));
    EXPECT_TRUE(contains(message, part));
  });
}

std::string line(
    const std::string& name,
    at::IntArrayRef sizes,
    c10::ScalarType dtype = at::kFloat) {
  return describe({name, at::zeros(sizes, dtype)});
}

TEST(VerifyRanks, EveryKindOfDifference) {
  const std::string a = line("a", {2, 3});
  expect_difference(
      {a}, {a, line("b", {1})}, "at line 2: ranks 0 and 2: nothing; rank 1: b float32");
  expect_difference({a, a}, {a}, "at line 2: ranks 0 and 2: a float32 of sizes [2, 3]");
  expect_difference({a}, {line("b", {2, 3})}, "rank 1: b float32");
  expect_difference({a}, {line("a", {3, 2})}, "rank 1: a float32 of sizes [3, 2]");
  expect_difference({a}, {line("a", {2, 3}, at::kDouble)}, "rank 1: a float64");
  expect_difference(
      {a}, {describe({"a", at::zeros({3, 2}).t()})}, "sizes [2, 3] and strides [1, 2]");
  expect_difference(
      {a}, {describe({"a", at::zeros({2, 3}), true})}, "with sparse gradients");
  expect_difference({a}, {}, "rank 1: nothing");
}

TEST(VerifyRanks, WhatIsEqualPasses) {
  run_world(Backend::Local, 3, [](const comm::Group& group) {
    verify_same(group, "model", {});
    verify_same(group, "model", {"a", "", "b"});
  });
}

TEST(VerifyRanks, ValuesAreBroadcastWhateverTheirStrides) {
  for (const Backend backend : {Backend::Local, Backend::Shm})
    for (int source = 0; source < 3; ++source)
      run_world(backend, 3, [&](const comm::Group& group) {
        const auto values = [](int rank) -> std::vector<at::Tensor> {
          return {
              at::arange(6, at::kFloat).view({2, 3}).add(rank).t(),
              at::full({}, rank, at::kLong),
              at::full({2, 2}, rank, at::kDouble),
              at::empty({0}),
              at::full({3}, rank % 2 == 0, at::kBool),
              at::full({2, 2, 2, 2}, rank, at::kFloat)
                  .contiguous(at::MemoryFormat::ChannelsLast)};
        };
        const std::vector<at::Tensor> mine = values(group.rank());
        mine[2].requires_grad_();
        const auto version = mine[2]._version();
        broadcast_values(group, mine, source);
        const std::vector<at::Tensor> wanted = values(source);
        for (size_t i = 0; i < mine.size(); ++i)
          EXPECT_TRUE(same(mine[i].detach(), wanted[i])) << i;
        EXPECT_EQ(mine[2]._version(), version);
        EXPECT_EQ(mine[0].stride(0), 1);
      });
}

TEST(VerifyRanks, MeansOfValues) {
  run_world(Backend::Local, 2, [](const comm::Group& group) {
    const at::Tensor real = at::full({2}, group.rank() + 1.0F);
    const at::Tensor whole = at::full({2}, group.rank() + 5, at::kLong);
    average_values(group, {real, whole});
    EXPECT_TRUE(same(real, at::full({2}, 1.5F)));
    EXPECT_TRUE(same(whole, at::full({2}, 5, at::kLong)));
  });
}

TEST(VerifyRanks, EqualValues) {
  run_world(Backend::Local, 3, [](const comm::Group& group) {
    std::vector<Parameter> parameters = {
        {"a", at::ones({4})}, {"b", at::ones({3, 2}).t()}, {"c", at::ones({2})}};
    verify_equal_values(group, parameters);
    if (group.rank() == 2)
      parameters[1].tensor[1][2] += 1e-7F;
    const std::string message =
        message_of<Error>([&] { verify_equal_values(group, parameters); });
    EXPECT_TRUE(contains(message, "values of b that differ: ranks 0 and 1: hash"));
    EXPECT_TRUE(contains(message, "; rank 2: hash"));
  });
}

}  // namespace
}  // namespace trireme::dp
