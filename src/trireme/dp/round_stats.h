// What a reduction took, and when.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme::dp {

/// Nanoseconds of a clock that all ranks of a host share.
inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

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

  int64_t bytes() const;
  /// How long buckets were being reduced, and how much of that while backward ran.
  int64_t comm_ns() const;
  int64_t overlap_ns() const;
  double overlap_share() const;
};

}  // namespace trireme::dp
