// What errors say, for tests with and without libtorch.
#pragma once
#include <exception>
#include <functional>
#include <string>

#include <gtest/gtest.h>

namespace trireme::testing {

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
inline ::testing::AssertionResult contains(
    const std::string& whole, const std::string& part) {
  if (whole.find(part) != std::string::npos)
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "\"" << whole << "\" has no \"" << part << "\"";
}

}  // namespace trireme::testing
