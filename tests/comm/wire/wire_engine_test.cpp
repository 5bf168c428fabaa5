// The engine over a wire: the conformance suite, with every branch of its algorithms.
#include "trireme/comm/wire/wire_engine.h"

#include <gtest/gtest.h>

#include "local_hosts.h"
#include "trireme/comm/collectives.h"
#include "trireme/testing/check.h"
#include "trireme/testing/conformance.h"

namespace trireme::comm {
namespace {

const bool wire_registered = [] {
  testing::register_conformance(
      {.suite = "ConformanceWireRanks",
       .run = [](int ranks, const testing::RankBody& body) { run_wire(ranks, body); },
       .sizes = {1, 2, 5}});
  return true;
}();

TEST(WireEngineRanks, NamesItsWire) {
  EXPECT_TRUE(wire_registered);
  run_wire(2, [](const Group& world) {
    EXPECT_EQ(world.backend(), "thread_wire");
    EXPECT_EQ(world.allocate({2, 3}, at::kHalf).sizes(), at::IntArrayRef({2, 3}));
    world.engine().check();
  });
}

TEST(WireEngineRanks, GroupsThatShareRanksWorkAtTheSameTime) {
  run_wire(3, [](const Group& world) {
    const Group first = world.split(0), second = world.split(0, -world.rank());
    EXPECT_EQ(second.members()[0], 2);
    std::vector<at::Tensor> a, b;
    std::vector<Work> works;
    for (int round = 0; round < 20; ++round) {
      a.push_back(at::ones({1000}));
      b.push_back(at::ones({100000}));
      works.push_back(all_reduce(first, a.back(), {.async = true}));
      works.push_back(all_reduce(second, b.back(), {.async = true}));
    }
    for (const Work& work : works)
      work.wait();
    for (const auto& list : {a, b})
      for (const at::Tensor& each : list)
        EXPECT_EQ(each[9].item<float>(), 3.0F);
  });
}

TEST(WireEngineRanks, ATreeAgreesAsWell) {
  for (const int ranks : {2, 3, 6})
    for (const auto& one : testing::fault_cases())
      if (!one.failure) {
        SCOPED_TRACE(one.name);
        run_wire(ranks, one.body, {.direct_ranks = 0});
      }
}

}  // namespace
}  // namespace trireme::comm
