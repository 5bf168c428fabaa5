#include "trireme/testing/rpc_fabric.h"

#include <tuple>

#include <gtest/gtest.h>

namespace trireme::testing {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// How many of a hundred calls were answered, and when the last one was.
std::pair<int, rpc::Time> answers(
    std::uint64_t seed, const Faults& faults, bool reports_losses = false) {
  Fabric* served = nullptr;
  Fabric fabric(
      seed,
      2,
      {.link = {.lease = milliseconds(1000)}, .make_token = {}, .make_cargo = {}},
      [&](rpc::WorkerId me, rpc::Incoming call) {
        served->respond(me, call, rpc::Status::Value, {});
      });
  served = &fabric;
  fabric.set_faults(faults);
  if (reports_losses)
    fabric.report_losses();
  int answered = 0;
  rpc::Time last{};
  for (int i = 0; i < 100; ++i)
    fabric.call(0, 1, {}, [&](rpc::Outcome outcome) {
      answered += outcome.status == rpc::Status::Value;
      last = fabric.now();
    });
  fabric.run_for(milliseconds(900));
  return {answered, last};
}

TEST(RpcFabric, TheSameSeedGivesTheSameStory) {
  EXPECT_EQ(answers(1, {}).first, 100);
  EXPECT_EQ(answers(1, {}), answers(1, {}));
  EXPECT_NE(answers(1, {}).second, answers(2, {}).second);
}

TEST(RpcFabric, LosesWhatItIsToldTo) {
  EXPECT_EQ(answers(1, {.drop = 1}).first, 0);
}

TEST(RpcFabric, ReportsWhatItLoses) {
  EXPECT_LT(answers(1, {.drop = 0.3}).first, 100);
  EXPECT_EQ(answers(1, {.drop = 0.3}, true).first, 100);
}

TEST(RpcFabric, CutsOneWayOrBoth) {
  for (const auto& [from, to, words] : {std::tuple{0, 1, 0}, {1, 0, 1}}) {
    int heard = 0;
    Fabric fabric(1, 2, {}, [&](rpc::WorkerId, rpc::Incoming) { ++heard; });
    fabric.call(0, 1, {}, [](const rpc::Outcome&) {});
    fabric.run_for(milliseconds(50));
    ASSERT_EQ(heard, 1);
    fabric.cut_one_way(from, to);
    fabric.call(0, 1, {}, [](const rpc::Outcome&) {});
    fabric.run_for(milliseconds(50));
    EXPECT_EQ(heard, 1 + words);
  }
}

TEST(RpcFabric, EventsComeInTheOrderOfTheirTimes) {
  Fabric fabric(1, 1, {}, [](rpc::WorkerId, rpc::Incoming) {});
  std::vector<int> order;
  fabric.at(microseconds(30), [&] { order.push_back(3); });
  fabric.at(microseconds(10), [&] { order.push_back(1); });
  fabric.at(microseconds(10), [&] { order.push_back(2); });
  const rpc::Time start = fabric.now();
  fabric.run_for(milliseconds(1));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(fabric.now() - start, milliseconds(1));
}

}  // namespace
}  // namespace trireme::testing
