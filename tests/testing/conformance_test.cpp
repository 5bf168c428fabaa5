// Every built-in backend against the conformance suite.
#include "trireme/testing/conformance.h"

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

// A suite that cannot fail proves nothing: a backend whose world does not start fails
// it.
TEST(Conformance, FailsForABackendThatFails) {
  const ConformanceBackend broken{.suite = "Broken", .run = [](int, const RankBody&) {
                                    throw std::runtime_error("no pigeons left");
                                  }};
  EXPECT_THROW(broken.run(2, reduction_cases()[0].body), std::runtime_error);
}

}  // namespace
}  // namespace trireme::testing
