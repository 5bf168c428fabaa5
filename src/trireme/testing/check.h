// Comparisons for tests of ranks: they say which rank and which element.
#pragma once
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include "trireme/testing/message.h"

namespace trireme::testing {

/// Passes when both have the same dtype, shape and bits (NaN equals NaN).
::testing::AssertionResult same(const at::Tensor& got, const at::Tensor& wanted);

}  // namespace trireme::testing
