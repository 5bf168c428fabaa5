#include "trireme/train/schedule_choice.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "trireme/comm/agree.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/rank_hosts.h"
#include "trireme/core/clock.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/median.h"
#include "trireme/core/proc_text.h"
#include "trireme/pipe/profile.h"
#include "trireme/sched/auto.h"
#include "trireme/sched/csv.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/index.h"
#include "trireme/sched/plan.h"
#include "trireme/train/config_origin.h"
#include "trireme/train/engine.h"
#include "trireme/train/estimate.h"

namespace trireme::train {
namespace {

using sched::index;

constexpr int kMeasuredSteps = 3;
// A plan must promise this much, or nothing is changed.
constexpr double kWorthIt = 0.99;

sched::Schedule read_schedule(const std::string& path) {
  const auto all = read_text_file(path);
  if (!all)
    throw InvalidArgument(text(
        "[train] expected a file that can be read, got ",
        in_quotes(path),
        "; correct the path"));
  return sched::parse_csv(*all, path);
}

/// The median time of a pass, of the slowest rank.
double time_passes(Engine& engine, const comm::Group& world, const pipe::Batch& batch) {
  std::vector<double> times;
  for (int i = 0; i <= kMeasuredSteps; ++i) {
    comm::barrier(world);
    const int64_t start = now_ns();
    engine.pipeline().step(batch);
    engine.optimizer().zero_grad();
    at::Tensor took =
        at::full({1}, static_cast<double>(now_ns() - start) * 1e-9, at::kDouble);
    comm::all_reduce(world, took, {.op = comm::ReduceOp::Max});
    if (i > 0)  // the first one warms up
      times.push_back(took.item<double>());
  }
  return median(times);
}

/// The schedule of an entry of a plan, made again.
sched::Schedule schedule_of(
    const sched::PlanEntry& entry, int ranks, const sched::CostFile& costs) {
  const sched::ScheduleSize size{
      .ranks = ranks,
      .microbatches = entry.microbatches,
      .stages_per_rank = entry.stages_per_rank};
  if (sched::is_auto(entry.schedule))
    return sched::make_auto(size, costs).schedule;
  return sched::generate(entry.schedule, size);
}

struct Planned {
  /// As CSV; empty: the first one stays.
  std::string csv;
  std::string name;
  size_t tried = 0;
};

/// What the planner says; only rank 0 asks it.
Planned ask_planner(
    const Layout& first, const sched::CostFile& costs, double memory_per_rank) {
  const sched::Plan plan = sched::plan(
      {.costs = costs,
       .ranks = first.degrees.pp,
       .microbatches = {first.batch.microbatches},
       .memory_limit = 0.8 * memory_per_rank});
  Planned planned{.csv = {}, .name = first.schedule.name, .tried = plan.entries.size()};
  const auto old = std::find_if(
      plan.entries.begin(), plan.entries.end(), [&](const sched::PlanEntry& entry) {
        return entry.schedule == first.schedule.name && entry.stages_per_rank == 1;
      });
  if (plan.entries.empty() || old == plan.entries.end())
    return planned;
  const sched::PlanEntry& best = plan.entries.front();
  if (!best.fits || best.makespan > kWorthIt * old->makespan)
    return planned;
  planned.csv = sched::to_csv(schedule_of(best, first.degrees.pp, costs));
  planned.name = best.schedule;
  return planned;
}

std::string ms(double seconds) {
  return text(std::round(seconds * 1e4) / 10, " ms");
}

/// Everybody goes on with what rank 0 has measured.
void share_costs(const comm::Group& world, std::vector<sched::LayerCosts>& layers) {
  at::Tensor numbers = at::zeros({static_cast<int64_t>(layers.size()), 5}, at::kDouble);
  auto rows = numbers.accessor<double, 2>();
  for (size_t i = 0; i < layers.size(); ++i) {
    const sched::StageCosts& one = layers[i].costs;
    const double row[] = {
        one.forward,
        one.input_grad,
        one.weight_grad,
        one.backward,
        one.activation_bytes};
    std::copy(std::begin(row), std::end(row), &rows[static_cast<int64_t>(i)][0]);
  }
  comm::broadcast(world, numbers, 0);
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto row = rows[static_cast<int64_t>(i)];
    sched::StageCosts& one = layers[i].costs;
    one.forward = row[0];
    one.input_grad = row[1];
    one.weight_grad = row[2];
    one.backward = row[3];
    one.activation_bytes = row[4];
  }
}

}  // namespace

bool is_measured(const Config& config) {
  return sched::is_auto(config.parallelism.pipeline_parallel_schedule) &&
         config.parallelism.pipeline_parallel_schedule_csv.empty();
}

Layout first_layout(
    const Config& config,
    const Degrees& degrees,
    const BatchShape& batch,
    const std::vector<sched::LayerCosts>& layers) {
  const ParallelismConfig& parallelism = config.parallelism;
  if (!parallelism.pipeline_parallel_schedule_csv.empty())
    return about("parallelism.pipeline_parallel_schedule_csv", [&] {
      return make_layout(
          degrees,
          batch,
          layers,
          read_schedule(parallelism.pipeline_parallel_schedule_csv));
    });
  if (is_measured(config))
    return about("training.global_batch_size", [&] {
      return make_layout(degrees, batch, layers, "1F1B");
    });
  return about("parallelism.pipeline_parallel_schedule", [&] {
    return make_layout(
        degrees,
        batch,
        layers,
        parallelism.pipeline_parallel_schedule,
        static_cast<int>(parallelism.pipeline_parallel_stages_per_rank));
  });
}

std::vector<sched::LayerCosts> spread_costs(
    const Layout& layout,
    const std::vector<sched::LayerCosts>& guess,
    const std::vector<sched::StageCosts>& measured) {
  const auto guessed = stage_costs(layout, guess);
  std::vector<sched::LayerCosts> all = guess;
  for (size_t stage = 0; stage < layout.layers.size(); ++stage) {
    const sched::StageCosts& real = measured[stage];
    const sched::StageCosts& sum = guessed[stage];
    const sched::LayerRange& range = layout.layers[stage];
    for (int i = range.first; i < range.last; ++i) {
      sched::StageCosts& one = all[index(i)].costs;
      const double time = one.time() / sum.time();
      const double kept =
          sum.activation_bytes > 0 ? one.activation_bytes / sum.activation_bytes : 0;
      one.forward = real.forward * time;
      one.input_grad = real.input_grad * time;
      one.weight_grad = real.weight_grad * time;
      one.backward = real.backward * time;
      one.activation_bytes = real.activation_bytes * kept;
    }
  }
  return all;
}

ScheduleChoice choose_schedule(
    const comm::Mesh& mesh,
    const model::ModelPlan& plan,
    const Config& config,
    const Layout& first,
    const data::TokenBatch& batch) {
  const comm::Group& world = mesh.group();
  ScheduleChoice choice{
      .layout = first, .layers = estimate_layers(plan, config, first.batch), .why = {}};
  double before = 0;
  sched::CostFile measured;
  {
    Engine engine(mesh, plan, first, config, FirstWeights::Zeros);
    const pipe::Batch pass = engine.pass(batch, 0);
    measured = pipe::profile(engine.pipeline(), pass, {.steps = kMeasuredSteps});
    before = time_passes(engine, world, pass);
  }
  choice.layers = spread_costs(first, choice.layers, measured.costs.stages);
  share_costs(world, choice.layers);
  choice.measured = true;
  choice.message_bytes = measured.costs.message_bytes;
  choice.links = measured.costs.links;
  sched::CostFile costs{.costs = measured.costs, .layers = choice.layers};
  costs.costs.stages.clear();
  Planned planned;
  const double memory =
      comm::memory_per_rank(comm::gather_hosts(world, comm::own_host()));
  if (world.rank() == 0)
    planned = ask_planner(first, costs, memory);
  const std::string csv = comm::share_text(world, planned.csv);
  if (csv.empty()) {
    choice.why = text(
        first.schedule.name,
        " stays: the best of ",
        planned.tried,
        " by measured costs, ",
        ms(before),
        " a pass");
    return choice;
  }
  sched::Schedule schedule = sched::parse_csv(csv, planned.name);
  schedule.name = comm::share_text(world, planned.name);
  const Layout tried = make_layout(first.degrees, first.batch, choice.layers, schedule);
  Engine engine(mesh, plan, tried, config, FirstWeights::Zeros);
  const double after = time_passes(engine, world, engine.pass(batch, 0));
  if (after < before)
    choice.layout = tried;
  choice.why = after < before ? text(
                                    schedule.name,
                                    ", chosen of ",
                                    planned.tried,
                                    " from measured costs: ",
                                    ms(after),
                                    " a pass, 1F1B ",
                                    ms(before))
                              : text(
                                    first.schedule.name,
                                    " stays: ",
                                    ms(before),
                                    " a pass, ",
                                    schedule.name,
                                    ", the plan's choice, took ",
                                    ms(after));
  return choice;
}

}  // namespace trireme::train
