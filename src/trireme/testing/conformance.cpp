#include "trireme/testing/conformance.h"

#include <iostream>

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

/// Stands in for a case that means nothing for a backend. It passes, since nothing was
/// left out that could have been done, but says so.
class NoCaseTest : public ::testing::Test {
 public:
  explicit NoCaseTest(std::string why) : why_(std::move(why)) {}
  void TestBody() override {
    RecordProperty("does_not_apply", why_);
    std::cout << "does not apply: " << why_ << std::endl;
  }

 private:
  std::string why_;
};

::testing::Test* make_test(
    const ConformanceBackend& backend, const ConformanceCase& which, int ranks) {
  if (which.failure && !backend.no_failures.empty())
    return new NoCaseTest(backend.no_failures);
  return new CaseTest(backend, which, ranks);
}

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
          [=] { return make_test(backend, one, ranks); });
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
