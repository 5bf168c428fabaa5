// Applies the masks of dropout to plain memory.
#pragma once
#include <cstdint>

#include <c10/core/ScalarType.h>

#include "trireme/autograd/random_stream.h"

namespace trireme::autograd {

/// A mask: element i of a sample stays if the sample's number i is at least
/// `threshold`.
struct DropoutMask {
  RandomStream stream;
  uint64_t first_sample = 0;
  int64_t samples = 0;
  /// Elements a sample.
  int64_t size = 0;
  uint32_t threshold = 0;
  double scale = 1;
};

/// Whether apply_mask() can do it.
bool has_mask_kernel(c10::ScalarType dtype);

/// Elements that stay, times the scale, for the samples from `begin` to `end`, counted
/// from the first of the mask. `in` and `out` begin at the first of the mask too.
void apply_mask(
    const DropoutMask& mask,
    c10::ScalarType dtype,
    const void* in,
    void* out,
    int64_t begin,
    int64_t end);

}  // namespace trireme::autograd
