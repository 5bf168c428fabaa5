// How a row of tokens becomes samples, and in which order they come.
#pragma once
#include <cstdint>
#include <optional>

#include "trireme/data/permutation.h"

namespace trireme::data {

/// How many samples of `length` tokens a row has: sample i is tokens i * length to
/// i * length + length, both included, since the targets are the inputs shifted by one.
///
///     count_windows(9, 4);  // 2: tokens 0 to 4 and 4 to 8
int64_t count_windows(int64_t tokens, int64_t length);

struct SampleOrderOptions {
  /// How many windows there are; at least 1.
  int64_t windows = 0;
  /// A new order for every epoch; off: window k % windows.
  bool shuffle = true;
  uint64_t seed = 0;
};

/// Which window the k-th sample of a run is: all windows come once an epoch, and one
/// epoch begins where the last has ended, be it inside a batch. Not for several threads
/// at once.
class SampleOrder {
 public:
  explicit SampleOrder(const SampleOrderOptions& options);

  /// `sample` counts from 0 over all epochs.
  int64_t window(int64_t sample);

 private:
  SampleOrderOptions options_;
  /// The epoch that `order_` is of.
  int64_t epoch_ = 0;
  std::optional<Permutation> order_;
};

}  // namespace trireme::data
