#include "trireme/train/load_decoders.h"

#include "trireme/ckpt/weight_files.h"
#include "trireme/core/error.h"
#include "trireme/model/build_stages.h"
#include "trireme/model/weights.h"
#include "trireme/sched/index.h"
#include "trireme/sched/partition.h"
#include "trireme/sched/schedule.h"

namespace trireme::train {

void check_ranks(const model::ModelPlan& plan, int ranks) {
  if (ranks > static_cast<int>(plan.layers.size()))
    throw InvalidArgument(text(
        "[train] expected at most ",
        plan.layers.size(),
        " ranks, one a layer, got ",
        ranks,
        "; start fewer"));
}

StageDecoders load_decoders(
    const comm::Group& world,
    const model::ModelPlan& plan,
    const std::filesystem::path& folder) {
  check_ranks(plan, world.size());
  StageDecoders stages{
      .rank_of_stage =
          sched::map_stages(sched::StageMap::Loop, world.size(), world.size()),
      .decoders = {}};
  std::vector<double> work;
  for (const model::LayerPlan& layer : plan.layers)
    work.push_back(layer.forward_flops_per_token(1) + 1);
  const auto ranges = sched::partition(work, stages.rank_of_stage);
  const auto layers = model::build_stages(
      plan, {ranges[sched::index(world.rank())]}, {.initialise = folder.empty()});
  if (!folder.empty())
    model::load_weights(layers, plan, ckpt::WeightFiles(folder));
  stages.decoders.push_back(std::make_unique<model::Decoder>(layers.front()));
  return stages;
}

}  // namespace trireme::train
