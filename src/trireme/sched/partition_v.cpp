#include "trireme/sched/partition_v.h"

#include <algorithm>

#include "trireme/sched/index.h"

namespace trireme::sched {
namespace {

// How many layers the ranks so far have taken from the back, for a number from the
// front; and how many before the last of these ranks.
struct Reach {
  int back = 0;
  int front_before = 0;
  int back_before = 0;
};

// By layers taken from the front; each ordered by the layers taken from the back.
using Reaches = std::vector<std::vector<Reach>>;

class BothEnds {
 public:
  BothEnds(const LayerTimes& layers, int ranks, double limit)
      : layers_(layers), ranks_(ranks), limit_(limit), capacity_(index(ranks + 1)) {
    // What the ranks from r on can take, rounding aside.
    for (int rank = ranks; rank-- > 0;)
      capacity_[index(rank)] =
          capacity_[index(rank + 1)] + limit * layers.speed(rank) * (1 + kRounding);
  }

  std::optional<std::vector<LayerRange>> run() {
    std::vector<Reaches> all(index(ranks_ + 1), Reaches(index(layers_.count() + 1)));
    all[0][0].push_back({});
    for (int rank = 0; rank < ranks_; ++rank)
      for (int front = rank + 1; front < layers_.count(); ++front)
        all[index(rank + 1)][index(front)] = reach(all[index(rank)], rank, front);
    for (int front = 1; front < layers_.count(); ++front)
      for (const Reach& reach : all[index(ranks_)][index(front)])
        if (front + reach.back == layers_.count())
          return trace(all, front, reach);
    return std::nullopt;
  }

 private:
  static constexpr double kRounding = 1e-9;

  // How far the back can be if this rank's front ends here. Only what leaves no more
  // than the other ranks can take, and at least two layers for each of them.
  std::vector<Reach> reach(const Reaches& before, int rank, int front) const {
    const int most = layers_.count() - front - 2 * (ranks_ - 1 - rank);
    int least = 1;
    while (least <= most &&
           layers_.sum({front, layers_.count() - least}) > capacity_[index(rank + 1)])
      ++least;
    std::vector<Reach> found(index(std::max(0, most) + 1));
    for (int start = front; start-- > 0;) {
      if (layers_.time({start, front}, rank) > limit_)
        break;
      int back = least;
      for (const Reach& from : before[index(start)]) {
        back = std::max(back, from.back + 1);
        for (; back <= most && fits(start, front, from.back, back, rank); ++back)
          found[index(back)] = {back, start, from.back};
      }
    }
    std::erase_if(found, [](const Reach& reach) { return reach.back == 0; });
    return found;
  }

  bool fits(int start, int front, int back_before, int back, int rank) const {
    const int end = layers_.count();
    return layers_.time({start, front}, {end - back, end - back_before}, rank) <=
           limit_;
  }

  std::vector<LayerRange> trace(
      const std::vector<Reaches>& all, int front, Reach reach) const {
    std::vector<LayerRange> ranges(index(2 * ranks_));
    const int end = layers_.count();
    for (int rank = ranks_; rank-- > 0;) {
      ranges[index(rank)] = {reach.front_before, front};
      ranges[index(2 * ranks_ - 1 - rank)] = {
          end - reach.back, end - reach.back_before};
      front = reach.front_before;
      const int back = reach.back_before;
      for (const Reach& candidate : all[index(rank)][index(front)])
        if (candidate.back == back)
          reach = candidate;
    }
    return ranges;
  }

  const LayerTimes& layers_;
  int ranks_;
  double limit_;
  std::vector<double> capacity_;
};

}  // namespace

LayerTimes::LayerTimes(
    const std::vector<double>& costs, const std::vector<double>& speeds)
    : sums_(costs.size() + 1), speeds_(speeds) {
  for (size_t i = 0; i < costs.size(); ++i)
    sums_[i + 1] = sums_[i] + costs[i];
}

std::optional<std::vector<LayerRange>> cut_there_and_back(
    const LayerTimes& layers, int ranks, double limit) {
  return BothEnds(layers, ranks, limit).run();
}

}  // namespace trireme::sched
