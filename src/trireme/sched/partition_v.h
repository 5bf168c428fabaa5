// How to cut layers for stages that lie there and back; for partition.cpp.
#pragma once
#include <optional>
#include <vector>

#include "trireme/sched/partition.h"

namespace trireme::sched {

/// What runs of layers take.
class LayerTimes {
 public:
  LayerTimes(const std::vector<double>& costs, const std::vector<double>& speeds);

  int count() const { return static_cast<int>(sums_.size()) - 1; }
  double sum(const LayerRange& range) const {
    return sums_[static_cast<size_t>(range.last)] -
           sums_[static_cast<size_t>(range.first)];
  }
  double speed(int rank) const {
    return speeds_.empty() ? 1 : speeds_[static_cast<size_t>(rank)];
  }
  double time(const LayerRange& range, int rank) const {
    return sum(range) / speed(rank);
  }
  double time(const LayerRange& a, const LayerRange& b, int rank) const {
    return (sum(a) + sum(b)) / speed(rank);
  }

 private:
  std::vector<double> sums_;
  const std::vector<double>& speeds_;
};

/// A cut into two runs a rank, from the outside to the inside, in which no rank has
/// more than `limit`; nothing if there is none.
std::optional<std::vector<LayerRange>> cut_there_and_back(
    const LayerTimes& layers, int ranks, double limit);

}  // namespace trireme::sched
