#include "trireme/rpc/remote_error.h"

#include <stdexcept>

#include <gtest/gtest.h>

#include "trireme/testing/message.h"

namespace trireme::rpc {
namespace {

using testing::contains;

TEST(RemoteError, SaysWhoWhatAndWhere) {
  const RemoteError error(
      "step", "server", {.type = "std::range_error", .text = "far"});
  EXPECT_EQ(error.worker(), "server");
  EXPECT_EQ(error.type(), "std::range_error");
  EXPECT_EQ(error.text(), "far");
  EXPECT_TRUE(contains(
      error.what(),
      "[rpc] expected a result of step from worker server, got std::range_error: far"));
}

TEST(RemoteError, FaultsAreMadeOfAnything) {
  const Fault known = fault_of(std::make_exception_ptr(std::domain_error("out")));
  EXPECT_EQ(known.type, "std::domain_error");
  EXPECT_EQ(known.text, "out");
  const Fault number = fault_of(std::make_exception_ptr(3));
  EXPECT_EQ(number.type, "int");
  EXPECT_EQ(number.text, "no std::exception, so it has no text");
}

// What comes from further on keeps its type, and says where it was.
TEST(RemoteError, GoesThroughCallsInsideOfCalls) {
  const RemoteError inner("f", "far", {.type = "Lost", .text = "fog"});
  const Fault outer = fault_of(std::make_exception_ptr(inner));
  EXPECT_EQ(outer.type, "Lost");
  EXPECT_EQ(outer.text, "(on worker far) fog");
}

}  // namespace
}  // namespace trireme::rpc
