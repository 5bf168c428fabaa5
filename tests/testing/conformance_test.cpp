// Every built-in backend against the conformance suite.
#include "trireme/testing/conformance.h"

#include <algorithm>

#include <ATen/Functions.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

namespace trireme::testing {
namespace {

ConformanceBackend built_in(const std::string& suite, Backend backend) {
  return {.suite = suite, .run = [backend](int ranks, const RankBody& body) {
            run_world(backend, ranks, body);
          }};
}

const bool registered = [] {
  register_conformance(built_in("ConformanceLocalRanks", Backend::Local));
  register_conformance(built_in("ConformanceShmThreadsRanks", Backend::ShmThreads));
  register_conformance(built_in("ConformanceShmProcs", Backend::Shm));
  return true;
}();

TEST(Conformance, CoversEveryArea) {
  EXPECT_TRUE(registered);
  for (const auto& cases :
       {reduction_cases(), move_cases(), group_cases(), channel_cases(), fault_cases()})
    EXPECT_FALSE(cases.empty());
}

TEST(Conformance, KnowsWhichCasesNeedAWorldThatOutlivesAFailure) {
  const auto cases = fault_cases();
  const auto failures = std::count_if(
      cases.begin(), cases.end(), [](const auto& one) { return one.failure; });
  EXPECT_EQ(failures, 6);
  for (const auto& others :
       {reduction_cases(), move_cases(), group_cases(), channel_cases()})
    for (const ConformanceCase& one : others)
      EXPECT_FALSE(one.failure) << one.name;
}

/// A world of two whose calls do nothing: every sum is wrong.
class IdleEngine : public comm::Engine {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::string backend() const override { return "idle"; }
  const std::vector<int>& members() const override { return members_; }
  void run(const comm::Collective&, const Deadline&) override {}
  std::shared_ptr<comm::Engine> split(int, int, const Deadline&) override {
    return std::make_shared<IdleEngine>();
  }
  std::unique_ptr<comm::SendPort> open_send(
      int, int, const comm::ChannelOptions&) override {
    return nullptr;
  }
  std::unique_ptr<comm::ReceivePort> open_receive(int, int) override { return nullptr; }
  at::Tensor allocate(
      at::IntArrayRef sizes, const at::TensorOptions& options) override {
    return at::empty(sizes, options);
  }
  void abort(const std::string&) noexcept override {}
  void check() const override {}
  std::shared_ptr<comm::Engine> renew(const Deadline&) override { return nullptr; }

 private:
  std::vector<int> members_ = {0, 1};
};

// A suite that cannot fail proves nothing.
TEST(Conformance, FailsForABackendThatDoesNothing) {
  ::testing::TestPartResultArray results;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &results);
    const comm::Group idle(std::make_shared<IdleEngine>());
    reduction_cases()[0].body(idle);
    move_cases()[0].body(idle.split(0));
  }
  EXPECT_GT(results.size(), 2);
}

}  // namespace
}  // namespace trireme::testing
