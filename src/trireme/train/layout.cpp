#include "trireme/train/layout.h"

#include <algorithm>

#include "trireme/core/error.h"
#include "trireme/pipe/program.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/index.h"

namespace trireme::train {
namespace {

using sched::index;

// Microbatches a rank, which leave a 1F1B of two ranks a ninth of its time as bubble.
constexpr int64_t kMicrobatchesPerRank = 4;

std::vector<double> times(const std::vector<sched::LayerCosts>& layers) {
  std::vector<double> all;
  for (const sched::LayerCosts& layer : layers)
    all.push_back(layer.costs.time());
  return all;
}

// A list of numbers as ranges: "0-3", "0, 4".
std::string stages_text(const std::vector<int>& stages) {
  std::string out;
  for (const int stage : stages)
    out += text(out.empty() ? "" : ", ", stage);
  return out;
}

std::string layers_text(
    const sched::LayerRange& range, const std::vector<sched::LayerCosts>& layers) {
  const std::string& first = layers[index(range.first)].name;
  const std::string& last = layers[index(range.last - 1)].name;
  return range.last - range.first == 1 ? first : text(first, " … ", last);
}

}  // namespace

void check_degrees(
    const ParallelismConfig& config, const Degrees& degrees, int ranks, int layers) {
  if (config.ranks != 0 && config.ranks != ranks)
    throw InvalidArgument(text(
        "[train] expected parallelism.ranks to be the ",
        ranks,
        " ranks that were started, got ",
        config.ranks,
        "; leave it out"));
  if (degrees.ranks() != ranks)
    throw InvalidArgument(text(
        "[train] expected pipelines that fill ",
        ranks,
        " ranks, got ",
        degrees.dp,
        " of ",
        degrees.pp,
        "; set parallelism.pipeline_parallel_degree or "
        "parallelism.data_parallel_replicate_degree to a divisor of the ranks"));
  if (degrees.pp > layers)
    throw InvalidArgument(text(
        "[train] expected at most ",
        layers,
        " ranks in a pipeline, one a layer, got ",
        degrees.pp,
        "; set parallelism.pipeline_parallel_degree lower"));
}

std::string to_text(const BatchShape& batch) {
  return text(
      batch.microbatches,
      batch.microbatches == 1 ? " microbatch of " : " microbatches of ",
      batch.microbatch_size);
}

BatchShape choose_batch(const Config& config, const Degrees& degrees) {
  const int64_t global = config.training.global_batch_size;
  if (global % degrees.dp != 0)
    throw InvalidArgument(text(
        "[train] expected training.global_batch_size to be a multiple of the ",
        degrees.dp,
        " pipelines, got ",
        global,
        "; set it, or parallelism.data_parallel_replicate_degree"));
  const int64_t share = global / degrees.dp;
  const int64_t local =
      config.training.local_batch_size == 0 ? share : config.training.local_batch_size;
  if (share % local != 0)
    throw InvalidArgument(text(
        "[train] expected training.local_batch_size to divide the ",
        share,
        " samples of a pipeline, got ",
        local,
        "; change one of them"));
  int64_t size = config.parallelism.pipeline_parallel_microbatch_size;
  if (size == 0) {
    // As many microbatches as asked for, or the nearest number that cuts the batch
    // evenly: below, but at least one a rank, or else above.
    int64_t count = std::min<int64_t>(
        local, degrees.pp == 1 ? 1 : kMicrobatchesPerRank * degrees.pp);
    while (local % count != 0 && count > degrees.pp)
      --count;
    while (local % count != 0)
      ++count;
    size = local / count;
  }
  if (local % size != 0)
    throw InvalidArgument(text(
        "[train] expected parallelism.pipeline_parallel_microbatch_size to divide the ",
        local,
        " samples of a pass, got ",
        size,
        "; set another size, or 0 for one that does"));
  return {
      .microbatch_size = size,
      .microbatches = static_cast<int>(local / size),
      .passes = static_cast<int>(share / local)};
}

Layout make_layout(
    const Degrees& degrees,
    const BatchShape& batch,
    const std::vector<sched::LayerCosts>& layers,
    const std::string& schedule,
    int stages_per_rank) {
  sched::Schedule made = sched::generate(
      schedule,
      {.ranks = degrees.pp,
       .microbatches = batch.microbatches,
       .stages_per_rank = stages_per_rank});
  return make_layout(degrees, batch, layers, made);
}

Layout make_layout(
    const Degrees& degrees,
    const BatchShape& batch,
    const std::vector<sched::LayerCosts>& layers,
    const sched::Schedule& schedule) {
  if (schedule.ranks() != degrees.pp)
    throw InvalidArgument(text(
        "[train] expected a schedule for pipelines of ",
        degrees.pp,
        " ranks, got ",
        schedule.name,
        " for ",
        schedule.ranks(),
        "; set parallelism.pipeline_parallel_degree to that, or take another "
        "schedule"));
  if (!pipe::has_backward(schedule))
    throw InvalidArgument(text(
        "[train] expected a schedule with backwards, got ",
        schedule.name,
        ", which trains nothing; take another schedule"));
  if (schedule.microbatches != batch.microbatches)
    throw InvalidArgument(text(
        "[train] expected a schedule for ",
        batch.microbatches,
        " microbatches, got ",
        schedule.name,
        " for ",
        schedule.microbatches,
        "; set parallelism.pipeline_parallel_microbatch_size or the batch sizes"));
  if (schedule.stages() > static_cast<int>(layers.size()))
    throw InvalidArgument(text(
        "[train] expected at most ",
        layers.size(),
        " stages, one a layer, got ",
        schedule.stages(),
        " for ",
        schedule.name,
        "; take fewer stages or more layers"));
  return {
      .degrees = degrees,
      .batch = batch,
      .schedule = schedule,
      .layers = sched::partition(times(layers), schedule.rank_of_stage)};
}

std::vector<sched::StageCosts> stage_costs(
    const Layout& layout, const std::vector<sched::LayerCosts>& layers) {
  std::vector<sched::StageCosts> all;
  for (const sched::LayerRange& range : layout.layers) {
    sched::StageCosts sum{0, 0, 0, 0, 0, 0};
    for (int i = range.first; i < range.last; ++i) {
      const sched::StageCosts& one = layers[index(i)].costs;
      sum.forward += one.forward;
      sum.input_grad += one.input_grad;
      sum.weight_grad += one.weight_grad;
      sum.backward += one.backward;
      sum.activation_bytes += one.activation_bytes;
      sum.weight_bytes += one.weight_bytes;
    }
    all.push_back(sum);
  }
  return all;
}

std::string to_text(
    const Layout& layout, const std::vector<sched::LayerCosts>& layers) {
  const Degrees& degrees = layout.degrees;
  std::string out = text(
      degrees.ranks(),
      degrees.ranks() == 1 ? " rank: " : " ranks: ",
      degrees.dp,
      degrees.dp == 1 ? " pipeline" : " pipelines",
      " of ",
      degrees.pp,
      ", ",
      to_text(layout.batch),
      layout.batch.passes == 1 ? "" : text(", ", layout.batch.passes, " passes a step"),
      ", ",
      layout.schedule.name,
      "\n");
  // Of a long pipeline the ends say enough.
  constexpr int kShown = 16;
  for (int rank = 0; rank < degrees.pp; ++rank) {
    if (degrees.pp > kShown && rank == kShown / 2) {
      out += text("  … ", degrees.pp - kShown, " more\n");
      rank = degrees.pp - kShown / 2;
    }
    const auto stages = sched::stages_of(layout.schedule.rank_of_stage, rank);
    out += text(
        "  pipeline rank ",
        rank,
        ": ",
        stages.size() == 1 ? "stage " : "stages ",
        stages_text(stages));
    for (const int stage : stages)
      out += text("; ", layers_text(layout.layers[index(stage)], layers));
    out += "\n";
  }
  return out;
}

}  // namespace trireme::train
