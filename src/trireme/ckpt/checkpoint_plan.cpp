#include "trireme/ckpt/checkpoint_plan.h"

#include <map>

#include "trireme/ckpt/json_reader.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::ckpt {
namespace {

constexpr const char* kWhere = "the plan of a checkpoint";
constexpr int kMostStages = 99'999;  // five digits in the names of files

using Part = std::vector<TensorEntry> StageOutline::*;

Json tensors_json(const std::vector<TensorEntry>& tensors) {
  Json list = Json::array();
  for (const TensorEntry& tensor : tensors)
    list.push_back(
        {tensor.name,
         static_cast<int>(tensor.dtype),
         Json(tensor.sizes),
         tensor.bytes()});
  return list;
}

std::vector<TensorEntry> read_tensors(const Json& list) {
  std::vector<TensorEntry> tensors;
  for (const Json& entry : list)
    tensors.push_back(
        {.name = entry.at(0).get<std::string>(),
         .dtype = static_cast<c10::ScalarType>(entry.at(1).get<int>()),
         .sizes = entry.at(2).get<std::vector<int64_t>>(),
         .end = entry.at(3).get<uint64_t>()});
  return tensors;
}

std::string kind_text(const TensorEntry& tensor) {
  std::string sizes;
  for (const int64_t size : tensor.sizes)
    sizes += text(sizes.empty() ? "" : ", ", size);
  return text(c10::toString(tensor.dtype), " [", sizes, "]");
}

// Each stage once, in their order.
std::vector<const StageOutline*> order_stages(const std::vector<RankOutline>& ranks) {
  const RankOutline& first = ranks.at(0);
  if (first.stages < 1 || first.stages > kMostStages)
    refuse(kWhere, text("1 to ", kMostStages, " stages"), text(first.stages));
  std::vector<const StageOutline*> stages(static_cast<size_t>(first.stages));
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankOutline& mine = ranks[rank];
    if (mine.step != first.step || mine.stages != first.stages)
      refuse(
          kWhere,
          text("step ", first.step, " of ", first.stages, " stages, as on rank 0"),
          text("step ", mine.step, " of ", mine.stages, " on rank ", rank));
    for (const StageOutline& part : mine.parts) {
      if (part.stage < 0 || part.stage >= first.stages)
        refuse(
            kWhere,
            text("stages from 0 to ", first.stages - 1),
            text("stage ", part.stage, " on rank ", rank));
      const StageOutline*& place = stages[static_cast<size_t>(part.stage)];
      if (place != nullptr)
        refuse(
            kWhere,
            "each stage from one rank",
            text("stage ", part.stage, " again on rank ", rank),
            "of data-parallel replicas, let the first one write");
      place = &part;
    }
  }
  for (size_t stage = 0; stage < stages.size(); ++stage)
    if (stages[stage] == nullptr)
      refuse(kWhere, text("stage ", stage, " from one rank"), "none that brings it");
  return stages;
}

FamilyPlan plan_family(
    const std::vector<const StageOutline*>& stages, Part part, const char* stem) {
  FamilyPlan plan{.stem = stem};
  bool any = false;
  for (const StageOutline* stage : stages)
    any = any || !(stage->*part).empty();
  if (!any)
    return plan;
  const int count = static_cast<int>(stages.size());
  for (int number = 1; number <= count; ++number)
    plan.files.push_back(
        count == 1 ? single_name(stem) : shard_name(stem, number, count));
  std::map<std::string, const TensorEntry*> known;
  for (size_t i = 0; i < stages.size(); ++i)
    for (const TensorEntry& tensor : stages[i]->*part) {
      const auto [place, fresh] = known.emplace(tensor.name, &tensor);
      const TensorEntry& first = *place->second;
      if (first.dtype != tensor.dtype || first.sizes != tensor.sizes)
        refuse(
            kWhere,
            text(in_quotes(tensor.name), " alike in all stages: ", kind_text(first)),
            text(kind_text(tensor), " in stage ", i));
      if (!fresh && plan.index.files[tensor.name] == plan.files[i])
        refuse(
            kWhere,
            "each name once in a stage",
            text(in_quotes(tensor.name), " twice"));
      if (!fresh)
        continue;
      plan.index.files[tensor.name] = plan.files[i];
      plan.index.total_bytes += tensor.bytes();
    }
  return plan;
}

}  // namespace

std::string write_outline(const RankOutline& outline) {
  Json parts = Json::array();
  for (const StageOutline& part : outline.parts)
    parts.push_back(
        {part.stage, tensors_json(part.weights), tensors_json(part.optimizer)});
  return json_text(Json{outline.step, outline.stages, parts}, -1, kWhere);
}

RankOutline parse_outline(std::string_view json) try {
  const Json root = parse_json(json, kWhere);
  RankOutline outline{
      .step = root.at(0).get<int64_t>(), .stages = root.at(1).get<int>()};
  for (const Json& part : root.at(2))
    outline.parts.push_back(
        {.stage = part.at(0).get<int>(),
         .weights = read_tensors(part.at(1)),
         .optimizer = read_tensors(part.at(2))});
  return outline;
} catch (const Json::exception&) {
  refuse(
      kWhere, "the outline of a rank", "other JSON", "do all ranks run one program?");
}

bool FamilyPlan::writes(int stage, const std::string& name) const {
  const auto found = index.files.find(name);
  return found != index.files.end() &&
         found->second == files.at(static_cast<size_t>(stage));
}

CheckpointPlan plan_checkpoint(const std::vector<RankOutline>& ranks) {
  const auto stages = order_stages(ranks);
  return {
      .weights = plan_family(stages, &StageOutline::weights, kWeightStem),
      .optimizer = plan_family(stages, &StageOutline::optimizer, kOptimizerStem)};
}

}  // namespace trireme::ckpt
