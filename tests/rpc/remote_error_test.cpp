#include "trireme/rpc/remote_error.h"

#include <gtest/gtest.h>

namespace trireme::rpc {
namespace {

Fault fault_from(auto thrown) {
  return fault_of(std::make_exception_ptr(thrown));
}

TEST(RemoteError, SaysWhereItWasThrownAndWhat) {
  const RemoteError error(
      "add", "server", {.type = "std::out_of_range", .text = "too far"});
  EXPECT_EQ(error.worker(), "server");
  EXPECT_EQ(error.type(), "std::out_of_range");
  EXPECT_EQ(error.text(), "too far");
  EXPECT_STREQ(
      error.what(),
      "[rpc] expected a result of add from worker server, got std::out_of_range: too "
      "far; mend "
      "it there, or catch it here");
}

TEST(RemoteError, KnowsAnyException) {
  const Fault standard = fault_from(std::out_of_range("far"));
  EXPECT_EQ(standard.type, "std::out_of_range");
  EXPECT_EQ(standard.text, "far");
  EXPECT_EQ(fault_from(InvalidArgument("[x] y")).type, "trireme::InvalidArgument");
  const Fault number = fault_from(42);
  EXPECT_EQ(number.type, "int");
  EXPECT_FALSE(number.text.empty());
}

TEST(RemoteError, KeepsItsTypeThroughNestedCalls) {
  const Fault fault = fault_from(
      RemoteError("f", "far", {.type = "std::out_of_range", .text = "too far"}));
  EXPECT_EQ(fault.type, "std::out_of_range");
  EXPECT_EQ(fault.text, "(on worker far) too far");
}

}  // namespace
}  // namespace trireme::rpc
