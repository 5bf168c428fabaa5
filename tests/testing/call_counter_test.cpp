#include "trireme/testing/call_counter.h"

#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace trireme::testing {
namespace {

TEST(CallCounterRanks, CountsOnAllThreads) {
  const at::Tensor x = at::ones({2, 2});
  for (int round = 0; round < 2; ++round) {
    const CallCounter products(at::RecordScope::FUNCTION, "aten::mm");
    at::mm(x, x);
    std::thread([&x] { at::mm(x, x); }).join();
    at::add(x, x);
    EXPECT_EQ(products.count(), 2);
  }
  at::mm(x, x);  // nobody counts it
}

}  // namespace
}  // namespace trireme::testing
