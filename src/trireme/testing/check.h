// Comparisons for tests of ranks: they say which rank and which element.
#pragma once
#include <functional>
#include <string>

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

namespace trireme::testing {

/// Passes when both have the same dtype, shape and bits (NaN equals NaN).
::testing::AssertionResult same(const at::Tensor& got, const at::Tensor& wanted);

/// The message of the error of type E that `body` throws; a failure if it throws none.
template <class E>
std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error came: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no error came";
  return "";
}

/// Whether `whole` holds `part`.
::testing::AssertionResult contains(const std::string& whole, const std::string& part);

}  // namespace trireme::testing
