// What a reduction took, and when.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "trireme/core/clock.h"

namespace trireme::dp {

/// The way of one bucket.
struct BucketTime {
  int64_t bytes = 0;
  /// When the last of its gradients was there, when its reduction began, when it ended.
  int64_t ready_ns = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  /// Left out, since no rank had reached it.
  bool skipped = false;
};

/// One round: from the first gradient of a backward to the end of all reductions.
struct RoundStats {
  int64_t round = 0;
  /// The first gradient, the end of backward, the end of the round.
  int64_t start_ns = 0;
  int64_t backward_end_ns = 0;
  int64_t end_ns = 0;
  std::vector<BucketTime> buckets;

  int64_t bytes() const {
    int64_t sum = 0;
    for (const BucketTime& bucket : buckets)
      sum += bucket.skipped ? 0 : bucket.bytes;
    return sum;
  }
  /// How long buckets were being reduced, and how much of that while backward ran.
  int64_t comm_ns() const {
    int64_t sum = 0;
    for (const BucketTime& bucket : buckets)
      sum += bucket.end_ns - bucket.start_ns;
    return sum;
  }
  int64_t overlap_ns() const {
    int64_t sum = 0;
    for (const BucketTime& bucket : buckets)
      sum += std::max<int64_t>(
          0, std::min(bucket.end_ns, backward_end_ns) - bucket.start_ns);
    return sum;
  }
  double overlap_share() const {
    const int64_t all = comm_ns();
    return all > 0 ? static_cast<double>(overlap_ns()) / static_cast<double>(all) : 0;
  }
};

}  // namespace trireme::dp
