#include "trireme/rpc/tensor_form.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

namespace trireme::rpc {

TEST(TensorForm, QuantizedAndUnknownDtypesAreNotPacked) {
  EXPECT_TRUE(is_packed_dtype(static_cast<int>(at::kFloat)));
  EXPECT_TRUE(is_packed_dtype(static_cast<int>(at::kComplexHalf)));
  EXPECT_TRUE(is_packed_dtype(static_cast<int>(at::kUInt64)));
  EXPECT_FALSE(is_packed_dtype(static_cast<int>(at::kQInt8)));
  EXPECT_FALSE(is_packed_dtype(static_cast<int>(at::kBits8)));
  EXPECT_FALSE(is_packed_dtype(static_cast<int>(at::ScalarType::Undefined)));
  for (const int number : {-1, -256, 128, 256, 100'000})
    EXPECT_FALSE(is_packed_dtype(number)) << number;
}

TEST(TensorForm, UsualStridesHaveNoGaps) {
  EXPECT_TRUE(are_usual_strides({}, {}));
  EXPECT_TRUE(are_usual_strides({2, 3}, {3, 1}));
  EXPECT_FALSE(are_usual_strides({2, 3}, {1, 2}));
  EXPECT_FALSE(are_usual_strides({2, 3}, {4, 1}));
  // Written down, for the stride of a dim of size 1 tells channels_last.
  EXPECT_FALSE(are_usual_strides({1, 3}, {1, 1}));
}

}  // namespace trireme::rpc
