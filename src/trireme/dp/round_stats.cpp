#include "trireme/dp/round_stats.h"

#include <algorithm>

namespace trireme::dp {

int64_t RoundStats::bytes() const {
  int64_t sum = 0;
  for (const BucketTime& bucket : buckets)
    sum += bucket.skipped ? 0 : bucket.bytes;
  return sum;
}

int64_t RoundStats::comm_ns() const {
  int64_t sum = 0;
  for (const BucketTime& bucket : buckets)
    sum += bucket.end_ns - bucket.start_ns;
  return sum;
}

int64_t RoundStats::overlap_ns() const {
  int64_t sum = 0;
  for (const BucketTime& bucket : buckets)
    sum += std::max<int64_t>(
        0, std::min(bucket.end_ns, backward_end_ns) - bucket.start_ns);
  return sum;
}

double RoundStats::overlap_share() const {
  const int64_t all = comm_ns();
  return all > 0 ? static_cast<double>(overlap_ns()) / static_cast<double>(all) : 0;
}

}  // namespace trireme::dp
