#include "trireme/testing/peer.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace trireme::testing {
namespace {

TEST(Peer, SaysWhatIsMissing) {
  const char* given = std::getenv("TRIREME_PYTHON");
  const std::string before = given == nullptr ? "" : given;
  ::unsetenv("TRIREME_PYTHON");
  EXPECT_NE(peer_missing({}).find("is not set"), std::string::npos);
  ::setenv("TRIREME_PYTHON", "python3", 1);
  EXPECT_EQ(peer_missing({"json", "os"}), "");
  EXPECT_NE(
      peer_missing({"os", "no_such_package"}).find("has no no_such_package"),
      std::string::npos);
  EXPECT_EQ(run_peer({"-c", "print(1); print(2)"}), "1\n2\n");
  if (given != nullptr)
    ::setenv("TRIREME_PYTHON", before.c_str(), 1);
}

}  // namespace
}  // namespace trireme::testing
