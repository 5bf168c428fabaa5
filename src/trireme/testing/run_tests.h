// What the main() of every test program ends with.
#pragma once
#include <gtest/gtest.h>

namespace trireme::testing {

/// The exit code that tells ctest that something was left out.
inline constexpr int kSkipped = 77;

/// Runs all tests that the filter lets through: 1 if one failed, kSkipped if none
/// failed and at least one was skipped, else 0.
inline int run_tests() {
  const int result = RUN_ALL_TESTS();
  const bool skipped = ::testing::UnitTest::GetInstance()->skipped_test_count() > 0;
  return result == 0 && skipped ? kSkipped : result;
}

}  // namespace trireme::testing
