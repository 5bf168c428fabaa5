// Which parameters share a bucket, and where each lies: arithmetic alone.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <c10/core/ScalarType.h>

namespace trireme::dp {

/// What planning needs to know of a parameter.
struct ParameterSize {
  int64_t elements = 0;
  /// Of its place in a bucket.
  c10::ScalarType dtype = c10::ScalarType::Float;
  /// Its gradient lists rows: it gets a bucket of its own, without a place.
  bool sparse = false;
};

/// How large buckets may be.
struct BucketLimits {
  /// Of the first, the second and so on, for each dtype; the last one serves all that
  /// follow. A bucket is closed by the parameter that reaches its limit.
  std::vector<size_t> bytes{size_t{1} << 20, size_t{25} << 20};
};

/// The parameters of each bucket.
using Buckets = std::vector<std::vector<int>>;

/// Puts parameters into buckets in the order in which their gradients are expected, one
/// open bucket a dtype. Buckets come in the order in which they will be full.
///
///     Buckets buckets = assign_buckets(sizes, reversed_order(sizes.size()), {});
Buckets assign_buckets(
    std::span<const ParameterSize> parameters,
    std::span<const int> order,
    const BucketLimits& limits);

/// Last parameter first: what backward does in most models.
std::vector<int> reversed_order(size_t parameters);

/// Where a parameter lies: elements of the buffer of its dtype.
struct Place {
  int bucket = -1;
  int64_t begin = 0;
};

/// A bucket as a range of the buffer of its dtype.
struct BucketRange {
  c10::ScalarType dtype = c10::ScalarType::Float;
  /// The gradient lists rows, and there is no range.
  bool sparse = false;
  int64_t begin = 0;
  /// With padding and riders.
  int64_t elements = 0;
  /// Room at the end for numbers that are reduced with it.
  int64_t riders_begin = 0;
  int64_t riders = 0;
  std::vector<int> parameters;
};

/// Buckets laid out one after the other, in one buffer a dtype.
struct Layout {
  std::vector<BucketRange> buckets;
  /// By parameter.
  std::vector<Place> places;
  struct Buffer {
    c10::ScalarType dtype = c10::ScalarType::Float;
    int64_t elements = 0;
  };
  std::vector<Buffer> buffers;
};

/// Room at the end of buckets that have a range, in elements: in the first of them, in
/// each for every parameter in it, and in the last, one after the other.
struct RiderRoom {
  int64_t first = 0;
  int64_t parameter = 0;
  int64_t last = 0;
};

/// Every parameter, and the riders of every bucket, begin on a line of 64 bytes.
Layout lay_out(
    std::span<const ParameterSize> parameters,
    const Buckets& buckets,
    const RiderRoom& room);

/// How many bytes would be reduced earlier if buckets followed `order` instead, as a
/// share of all: 0 if nothing changes.
double drift(
    std::span<const ParameterSize> parameters,
    const Buckets& now,
    const Buckets& wanted);

}  // namespace trireme::dp
