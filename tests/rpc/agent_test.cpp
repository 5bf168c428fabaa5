#include "trireme/rpc/agent.h"

#include <gtest/gtest.h>

namespace trireme::rpc {
namespace {
TEST(Agent, Compiles) {
  FunctionTable functions;
  functions.add("add", [](int a, int b) { return a + b; });
}
}  // namespace
}  // namespace trireme::rpc
