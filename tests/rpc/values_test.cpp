#include "trireme/rpc/values.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::rpc {

TEST(Values, AMissingTensorIsRefused) {
  const Values none;
  ValueReader reader(none, "a test");
  EXPECT_THROW(reader.tensor(), InvalidArgument);
}

}  // namespace trireme::rpc
