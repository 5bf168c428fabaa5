// A comparison for sums that were taken in another order.
#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace trireme::dp {

/// Passes where both have the same dtype and shape and nearly the same numbers: the
/// tolerances that torch's own tests have for float32.
inline ::testing::AssertionResult close(
    const at::Tensor& got,
    const at::Tensor& wanted,
    double rtol = 1.3e-6,
    double atol = 1e-5) {
  if (!got.defined() || !wanted.defined())
    return ::testing::AssertionFailure() << "an undefined tensor";
  if (got.scalar_type() != wanted.scalar_type() || got.sizes() != wanted.sizes())
    return ::testing::AssertionFailure()
           << got.scalar_type() << " of the shape " << got.sizes() << ", wanted "
           << wanted.scalar_type() << " of the shape " << wanted.sizes();
  if (at::allclose(got, wanted, rtol, atol))
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "off by " << (got - wanted).abs().max().item<double>() << " of "
         << wanted.abs().max().item<double>();
}

}  // namespace trireme::dp
