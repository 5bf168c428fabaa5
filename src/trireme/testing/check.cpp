#include "trireme/testing/check.h"

#include <ATen/ATen.h>

namespace trireme::testing {

::testing::AssertionResult same(const at::Tensor& got, const at::Tensor& wanted) {
  if (got.defined() != wanted.defined())
    return ::testing::AssertionFailure() << "one tensor is undefined";
  if (!got.defined())
    return ::testing::AssertionSuccess();
  if (got.scalar_type() != wanted.scalar_type() || got.sizes() != wanted.sizes())
    return ::testing::AssertionFailure()
           << "got " << got.scalar_type() << got.sizes() << ", wanted "
           << wanted.scalar_type() << wanted.sizes();
  const at::Tensor a = got.detach().reshape({-1});
  const at::Tensor b = wanted.detach().reshape({-1});
  const at::Tensor differ = a.ne(b).logical_and(a.eq(a).logical_or(b.eq(b)));
  if (!differ.any().item<bool>())
    return ::testing::AssertionSuccess();
  const auto where = differ.nonzero()[0][0].item<int64_t>();
  return ::testing::AssertionFailure()
         << differ.sum().item<int64_t>() << " of " << a.numel()
         << " elements differ; the first is " << where << ": got " << a[where]
         << ", wanted " << b[where];
}

}  // namespace trireme::testing
