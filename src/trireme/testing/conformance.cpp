#include "trireme/testing/conformance.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::testing {
namespace {

class CaseTest : public ::testing::Test {
 public:
  CaseTest(ConformanceBackend backend, ConformanceCase which, int ranks)
      : backend_(std::move(backend)), case_(std::move(which)), ranks_(ranks) {}
  void TestBody() override { ASSERT_NO_THROW(backend_.run(ranks_, case_.body)); }

 private:
  ConformanceBackend backend_;
  ConformanceCase case_;
  int ranks_;
};

void add(const ConformanceBackend& backend, const std::vector<ConformanceCase>& cases) {
  for (const ConformanceCase& one : cases)
    for (const int ranks : backend.sizes)
      ::testing::RegisterTest(
          backend.suite.c_str(),
          text(one.name, "On", ranks).c_str(),
          nullptr,
          nullptr,
          __FILE__,
          __LINE__,
          [=]() -> ::testing::Test* { return new CaseTest(backend, one, ranks); });
}

}  // namespace

void register_conformance(const ConformanceBackend& backend) {
  add(backend, reduction_cases());
  add(backend, move_cases());
  add(backend, group_cases());
  add(backend, channel_cases());
  add(backend, fault_cases());
}

}  // namespace trireme::testing
