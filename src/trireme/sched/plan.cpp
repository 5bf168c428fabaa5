#include "trireme/sched/plan.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <optional>
#include <tuple>

#include "trireme/core/error.h"
#include "trireme/sched/auto.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/simulate.h"

namespace trireme::sched {
namespace {

StageCosts scaled(StageCosts costs, double factor) {
  for (double* value :
       {&costs.forward,
        &costs.input_grad,
        &costs.weight_grad,
        &costs.backward,
        &costs.activation_bytes,
        &costs.weight_bytes})
    *value *= factor;
  return costs;
}

void add(StageCosts& sum, const StageCosts& more) {
  sum.forward += more.forward;
  sum.input_grad += more.input_grad;
  sum.weight_grad += more.weight_grad;
  sum.backward += more.backward;
  sum.activation_bytes += more.activation_bytes;
  sum.weight_bytes += more.weight_bytes;
}

// What is cut into stages: the layers, or stages taken for layers.
std::vector<LayerCosts> layers_of(const CostFile& file) {
  if (!file.layers.empty() || file.costs.stages.size() <= 1)
    return file.layers;
  std::vector<LayerCosts> layers;
  for (const StageCosts& stage : file.costs.stages)
    layers.push_back({.name = text("stage ", layers.size()), .costs = stage});
  return layers;
}

/// The costs of one cut.
struct Cut {
  Costs costs;
  std::vector<LayerRange> layers;
};

Cut cut_layers(
    const Costs& costs,
    const std::vector<LayerCosts>& layers,
    const std::vector<int>& rank_of_stage) {
  std::vector<double> times;
  for (const LayerCosts& layer : layers)
    times.push_back(layer.costs.time());
  Cut cut{.costs = costs, .layers = partition(times, rank_of_stage)};
  cut.costs.stages.clear();
  for (const LayerRange& range : cut.layers) {
    StageCosts sum{0, 0, 0, 0, 0, 0};
    for (int layer = range.first; layer < range.last; ++layer)
      add(sum, layers[static_cast<size_t>(layer)].costs);
    cut.costs.stages.push_back(sum);
  }
  return cut;
}

class Planner {
 public:
  explicit Planner(const PlanRequest& request)
      : request_(request), layers_(layers_of(request.costs)) {}

  Plan run() {
    std::vector<int> counts = request_.microbatches;
    if (counts.empty())
      counts = {
          request_.ranks, 2 * request_.ranks, 4 * request_.ranks, 8 * request_.ranks};
    for (int V = 1; V <= request_.most_stages_per_rank; ++V)
      for (const StageMap map : {StageMap::Loop, StageMap::V}) {
        if (V == 1 && map == StageMap::V)
          continue;
        if (const auto cut = cut_for(map, V))
          for (const int M : counts)
            try_all(map, V, M, *cut);
      }
    if (entries_.empty() && too_large_ > 0)
      throw InvalidArgument(
          "[sched] expected a pipeline that can be simulated in seconds, got one that "
          "is "
          "too large; take fewer ranks or microbatches");
    if (entries_.empty())
      throw InvalidArgument(text(
          "[sched] expected at least ",
          request_.ranks,
          " layers for ",
          request_.ranks,
          " ranks, got ",
          layers_.size(),
          "; take fewer ranks"));
    std::stable_sort(
        entries_.begin(), entries_.end(), [](const PlanEntry& a, const PlanEntry& b) {
          if (a.fits != b.fits)
            return a.fits;
          if (a.time_per_microbatch() != b.time_per_microbatch())
            return a.time_per_microbatch() < b.time_per_microbatch();
          // Of equals the one with fewer stages and less memory.
          return std::tuple(a.stages_per_rank, a.peak_bytes) <
                 std::tuple(b.stages_per_rank, b.peak_bytes);
        });
    return {.entries = std::move(entries_), .left_out = left_out()};
  }

 private:
  std::optional<Cut> cut_for(StageMap map, int V) const {
    const auto owners = map_stages(map, request_.ranks, request_.ranks * V);
    Cut cut{.costs = request_.costs.costs};
    if (layers_.empty())
      cut.costs.stages = {scaled(request_.costs.costs.stage(0), 1.0 / V)};
    else if (layers_.size() < owners.size())
      return std::nullopt;
    else
      cut = cut_layers(request_.costs.costs, layers_, owners);
    check_costs(cut.costs, static_cast<int>(owners.size()), request_.ranks);
    return cut;
  }

  // The schedule of that name, if it exists in this size.
  std::optional<Schedule> named(const ScheduleInfo& info, int V, int M) const {
    try {
      return generate(
          info.name,
          {.ranks = request_.ranks, .microbatches = M, .stages_per_rank = V});
    } catch (const InvalidArgument&) {
      return std::nullopt;
    }
  }

  void try_all(StageMap map, int V, int M, const Cut& cut) {
    const int64_t size = int64_t{request_.ranks} * V * M;
    ++sizes_;
    too_large_ += size > kMost ? 1 : 0;
    too_large_for_auto_ += size > kMostForAuto ? 1 : 0;
    if (size > kMost)
      return;
    for (const ScheduleInfo& info : all_schedules())
      if (info.map == map && std::string_view(info.name) != "ForwardOnly")
        if (const auto schedule = named(info, V, M))
          note(*schedule, V, cut);
    if (size > kMostForAuto)
      return;
    const auto best = find_auto(
        {.rank_of_stage = map_stages(map, request_.ranks, request_.ranks * V),
         .microbatches = M,
         .costs = cut.costs,
         .memory_limit = request_.memory_limit});
    if (best)
      note(best->schedule, V, cut);
  }

  void note(const Schedule& schedule, int V, const Cut& cut) {
    const Simulation result = simulate(schedule, {.costs = cut.costs});
    const double bytes =
        *std::max_element(result.peak_bytes.begin(), result.peak_bytes.end());
    entries_.push_back(
        {.schedule = schedule.name,
         .stages_per_rank = V,
         .map = V > 1 && schedule.rank_of_stage ==
                             map_stages(StageMap::V, request_.ranks, request_.ranks * V)
                    ? StageMap::V
                    : StageMap::Loop,
         .microbatches = schedule.microbatches,
         .makespan = result.makespan,
         .wall_bubble = result.wall_bubble,
         .peak_bytes = bytes,
         .fits = bytes <= request_.memory_limit,
         .layers = cut.layers});
  }

  std::string left_out() const {
    if (too_large_for_auto_ == 0)
      return {};
    std::string out = text(
        "Auto was not tried for ",
        too_large_for_auto_,
        " of ",
        sizes_,
        " sizes, which would take long: they have more than ",
        kMostForAuto,
        " stages x microbatches");
    if (too_large_ > 0)
      out += text("; nothing was for ", too_large_, ", which have more than ", kMost);
    return out;
  }

  // Beyond this a simulation takes seconds.
  static constexpr int64_t kMost = 1 << 22;

  const PlanRequest& request_;
  std::vector<LayerCosts> layers_;
  std::vector<PlanEntry> entries_;
  /// Pairs of stages a rank and microbatches; and those that were too large.
  int sizes_ = 0;
  int too_large_ = 0;
  int too_large_for_auto_ = 0;
};

std::string percent(double share) {
  return text(std::fixed, std::setprecision(1), 100 * share, " %");
}

}  // namespace

Costs stage_costs(const CostFile& file, const std::vector<int>& rank_of_stage) {
  return file.costs.stages.empty()
             ? cut_layers(file.costs, file.layers, rank_of_stage).costs
             : file.costs;
}

Plan plan(const PlanRequest& request) {
  constexpr int kMostRanks = 1 << 16, kMostStages = 1 << 10;
  if (request.ranks < 1 || request.ranks > kMostRanks ||
      request.most_stages_per_rank < 1 || request.most_stages_per_rank > kMostStages)
    throw InvalidArgument(text(
        "[sched] expected 1 to ",
        kMostRanks,
        " ranks and up to 1 to ",
        kMostStages,
        " stages a rank, got ",
        request.ranks,
        " and ",
        request.most_stages_per_rank,
        "; change these numbers"));
  if (std::isnan(request.memory_limit) || request.memory_limit < 0)
    throw InvalidArgument(text(
        "[sched] expected a memory limit of at least 0 bytes, got ",
        request.memory_limit,
        "; give a number from 0, or infinity for none"));
  if (request.costs.costs.stages.empty() && request.costs.layers.empty())
    throw InvalidArgument(
        "[sched] expected the costs of stages or layers, got neither; give one of "
        "them");
  for (const int count : request.microbatches)
    if (count < 1)
      throw InvalidArgument(text(
          "[sched] expected at least one microbatch, got ",
          count,
          "; give a number above 0"));
  return Planner(request).run();
}

std::string explain(const std::vector<PlanEntry>& entries, double memory_limit) {
  if (entries.empty())
    return "there is nothing to choose from";
  const PlanEntry& best = entries[0];
  if (!best.fits) {
    const auto least = std::min_element(
        entries.begin(), entries.end(), [](const PlanEntry& a, const PlanEntry& b) {
          return a.peak_bytes < b.peak_bytes;
        });
    return text(
        "nothing fits into ",
        memory_limit,
        " bytes a rank; ",
        least->schedule,
        " with ",
        least->microbatches,
        " microbatches needs the least: ",
        least->peak_bytes);
  }
  std::string out = text(
      best.schedule,
      " with ",
      best.stages_per_rank,
      best.stages_per_rank == 1 ? " stage" : " stages",
      " a rank and ",
      best.microbatches,
      " microbatches: ",
      best.time_per_microbatch(),
      " a microbatch, ",
      percent(best.bubble_share()),
      " bubble, ",
      best.peak_bytes,
      " bytes on the fullest rank");
  const auto next =
      std::find_if(entries.begin(), entries.end(), [&](const PlanEntry& entry) {
        return entry.fits && entry.schedule != best.schedule;
      });
  const double gain =
      next == entries.end() || best.makespan <= 0
          ? 0
          : next->time_per_microbatch() / best.time_per_microbatch() - 1;
  if (next != entries.end() && gain < 0.0005)
    out += text("; ", next->schedule, " is as fast");
  else if (next != entries.end())
    out += text("; ", percent(gain), " faster than the next best, ", next->schedule);
  return out;
}

}  // namespace trireme::sched
