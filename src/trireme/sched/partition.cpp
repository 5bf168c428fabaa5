#include "trireme/sched/partition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "trireme/core/error.h"
#include "trireme/sched/index.h"
#include "trireme/sched/partition_v.h"

namespace trireme::sched {
namespace {

// A question that is asked again and again: is there a cut in which nobody has more
// than `limit`?
class Cutter {
 public:
  Cutter(
      const std::vector<double>& costs,
      const std::vector<int>& rank_of_stage,
      const std::vector<double>& speeds)
      : rank_of_stage_(rank_of_stage), layers_(costs, speeds) {
    const int stages = static_cast<int>(rank_of_stage.size());
    const int half = stages / 2;
    there_and_back_ = stages % 2 == 0 && half > 0 &&
                      rank_of_stage == map_stages(StageMap::V, half, stages);
  }

  bool there_and_back() const { return there_and_back_; }
  const LayerTimes& layers() const { return layers_; }

  // For each stage the layers that it can end before. Of all ways to get to an end, the
  // one whose last stage begins latest is the one with the least in it.
  std::optional<std::vector<LayerRange>> cut_in_order(double limit) const {
    constexpr int kNoStart = -1;
    const size_t stages = rank_of_stage_.size();
    std::vector<std::vector<int>> starts(
        stages, std::vector<int>(index(layers_.count() + 1), kNoStart));
    for (size_t stage = 0; stage < stages; ++stage) {
      int start = stage == 0 ? 0 : kNoStart;
      for (int end = 1; end <= layers_.count(); ++end) {
        if (stage > 0 && starts[stage - 1][index(end - 1)] != kNoStart)
          start = end - 1;
        if (start != kNoStart &&
            layers_.time({start, end}, rank_of_stage_[stage]) <= limit)
          starts[stage][index(end)] = start;
      }
    }
    std::vector<LayerRange> ranges(stages);
    int end = layers_.count();
    for (size_t stage = stages; stage-- > 0;) {
      const int start = starts[stage][index(end)];
      if (start == kNoStart)
        return std::nullopt;
      ranges[stage] = {start, end};
      end = start;
    }
    return ranges;
  }

  std::optional<std::vector<LayerRange>> cut_by_rank(double limit) const {
    return cut_there_and_back(
        layers_, static_cast<int>(rank_of_stage_.size() / 2), limit);
  }

  /// The time of the stage that has most.
  double longest_stage(const std::vector<LayerRange>& ranges) const {
    double most = 0;
    for (size_t stage = 0; stage < ranges.size(); ++stage)
      most = std::max(most, layers_.time(ranges[stage], rank_of_stage_[stage]));
    return most;
  }

  /// The time of the rank that has most, there and back.
  double longest_rank(const std::vector<LayerRange>& ranges) const {
    double most = 0;
    for (size_t rank = 0; rank < ranges.size() / 2; ++rank)
      most = std::max(
          most,
          layers_.time(
              ranges[rank], ranges[ranges.size() - 1 - rank], static_cast<int>(rank)));
    return most;
  }

 private:
  const std::vector<int>& rank_of_stage_;
  LayerTimes layers_;
  bool there_and_back_ = false;
};

void check(
    const std::vector<double>& costs,
    const std::vector<int>& rank_of_stage,
    const std::vector<double>& speeds) {
  if (rank_of_stage.empty() || costs.size() < rank_of_stage.size())
    throw InvalidArgument(text(
        "[sched] expected at least one layer a stage, got ",
        costs.size(),
        " layers for ",
        rank_of_stage.size(),
        " stages; take fewer stages"));
  for (const double cost : costs)
    if (!(cost >= 0) || std::isinf(cost))
      throw InvalidArgument(text(
          "[sched] expected costs of layers that are numbers of at least 0, got ",
          cost,
          "; correct that cost"));
  for (const int rank : rank_of_stage)
    if (rank < 0)
      throw InvalidArgument(text(
          "[sched] expected ranks of stages of at least 0, got ",
          rank,
          "; correct rank_of_stage"));
  const int ranks = count_ranks(rank_of_stage);
  if (!speeds.empty() && static_cast<int>(speeds.size()) != ranks)
    throw InvalidArgument(text(
        "[sched] expected the speeds of ",
        ranks,
        " ranks, got ",
        speeds.size(),
        "; give one a rank"));
  for (const double speed : speeds)
    if (!(speed > 0) || std::isinf(speed))
      throw InvalidArgument(text(
          "[sched] expected speeds of ranks above 0, got ",
          speed,
          "; correct that speed"));
}

// Makes the largest share smaller and smaller, from a first cut on: halves while that
// helps; at the end, proves that not even a little less is possible.
template <class Cut, class Longest>
std::vector<LayerRange> improve(
    std::vector<LayerRange> best, const Cut& cut, const Longest& longest) {
  double high = longest(best), low = 0;
  constexpr int kMostSteps = 2000;
  for (int step = 0; step < kMostSteps; ++step) {
    const double just_below = std::nextafter(high, 0);
    const double middle = low + (high - low) / 2;
    const bool last = middle >= just_below || middle <= low;
    const double limit = last ? just_below : middle;
    if (auto found = cut(limit)) {
      best = std::move(*found);
      high = longest(best);
    } else if (last) {
      break;
    } else {
      low = middle;
    }
  }
  return best;
}

}  // namespace

std::vector<LayerRange> partition(
    const std::vector<double>& costs,
    const std::vector<int>& rank_of_stage,
    const std::vector<double>& speeds) {
  check(costs, rank_of_stage, speeds);
  const Cutter cutter(costs, rank_of_stage, speeds);
  auto ranges = improve(
      *cutter.cut_in_order(std::numeric_limits<double>::infinity()),
      [&](double limit) { return cutter.cut_in_order(limit); },
      [&](const auto& cut) { return cutter.longest_stage(cut); });
  if (!cutter.there_and_back())
    return ranges;
  return improve(
      std::move(ranges),
      [&](double limit) { return cutter.cut_by_rank(limit); },
      [&](const auto& cut) { return cutter.longest_rank(cut); });
}

double bottleneck(
    const std::vector<LayerRange>& ranges,
    const std::vector<double>& costs,
    const std::vector<int>& rank_of_stage,
    const std::vector<double>& speeds) {
  check(costs, rank_of_stage, speeds);
  int at = 0;
  bool whole = ranges.size() == rank_of_stage.size();
  for (const LayerRange& range : ranges) {
    whole = whole && range.first == at && range.last > at;
    at = range.last;
  }
  if (!whole || at != static_cast<int>(costs.size()))
    throw InvalidArgument(text(
        "[sched] expected a run of layers for each of ",
        rank_of_stage.size(),
        " stages, all ",
        costs.size(),
        " in order, got ",
        ranges.size(),
        " that are not; cut the layers anew with partition()"));
  const Cutter cutter(costs, rank_of_stage, speeds);
  return cutter.there_and_back() ? cutter.longest_rank(ranges)
                                 : cutter.longest_stage(ranges);
}

}  // namespace trireme::sched
