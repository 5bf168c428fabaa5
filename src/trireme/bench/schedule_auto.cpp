#include "trireme/bench/schedule_auto.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "trireme/core/error.h"
#include "trireme/sched/auto.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/plan.h"
#include "trireme/sched/simulate.h"

namespace trireme::bench {
namespace {

constexpr int kLayersPerRank = 6;
constexpr int kMicrobatchesPerRank = 4;

/// The distributions of the standard library differ from one to the other.
class Uniform {
 public:
  explicit Uniform(uint64_t seed) : random_(seed) {}
  double operator()(double least, double most) {
    constexpr double kUnit = 1.0 / 9007199254740992.0;  // 2^-53
    return least + (most - least) * static_cast<double>(random_() >> 11) * kUnit;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace

sched::CostFile drawn_costs(int ranks, uint64_t seed) {
  Uniform draw(1000 * static_cast<uint64_t>(ranks) + seed);
  sched::CostFile file;
  file.costs.stages.clear();
  const int layers = kLayersPerRank * ranks;
  double share = 0;  // the forward of a rank's layers, on the mean
  for (int i = 0; i < layers; ++i) {
    const double time = std::exp(draw(-0.7, 0.7));
    const double input_grad = time * draw(0.8, 1.3);
    const double weight_grad = time * draw(0.5, 1.1);
    share += time / ranks;
    file.layers.push_back(
        {.name = text("layer", i),
         .costs = {
             .forward = time,
             .input_grad = input_grad,
             .weight_grad = weight_grad,
             .backward = (input_grad + weight_grad) * draw(0.9, 1),
             .activation_bytes = time,
             .weight_bytes = 1}});
  }
  file.costs.message_bytes = 1;
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to) {
      if (from == to)
        continue;
      const double slowness = 0.3 * share * (draw(0, 1) < 0.25 ? 1.0 : 0.1);
      file.costs.links.push_back(
          {.from = from,
           .to = to,
           .latency = draw(0, slowness),
           .bandwidth = 1 / slowness});
    }
  return file;
}

double best_named_time(int ranks, const sched::CostFile& costs) {
  double best = std::numeric_limits<double>::infinity();
  for (const sched::ScheduleInfo& info : sched::all_schedules())
    for (const int stages_per_rank : {1, 2}) {
      if (std::string_view(info.name) == "ForwardOnly")
        continue;
      try {
        const sched::Schedule schedule = sched::generate(
            info.name,
            {.ranks = ranks,
             .microbatches = kMicrobatchesPerRank * ranks,
             .stages_per_rank = stages_per_rank});
        best = std::min(
            best,
            sched::simulate(
                schedule, {.costs = sched::stage_costs(costs, schedule.rank_of_stage)})
                .makespan);
      } catch (const InvalidArgument&) {
        // It does not exist with so many stages a rank.
      }
    }
  return best;
}

double auto_time(int ranks, const sched::CostFile& costs) {
  double best = std::numeric_limits<double>::infinity();
  for (const int stages_per_rank : {1, 2})
    best = std::min(
        best,
        sched::make_auto(
            {.ranks = ranks,
             .microbatches = kMicrobatchesPerRank * ranks,
             .stages_per_rank = stages_per_rank},
            costs)
            .makespan);
  return best;
}

}  // namespace trireme::bench
