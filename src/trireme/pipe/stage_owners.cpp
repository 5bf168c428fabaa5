#include "trireme/pipe/stage_owners.h"

#include <algorithm>

#include "trireme/comm/collective.h"
#include "trireme/comm/gather_rows.h"
#include "trireme/core/error.h"
#include "trireme/pipe/tied.h"
#include "trireme/sched/auto.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/index.h"

namespace trireme::pipe {

using sched::index;

std::vector<int> find_owners(
    const std::vector<Stage>& stages, const comm::Group& group) {
  std::vector<int64_t> mine;
  for (const Stage& stage : stages)
    mine.push_back(stage.index);
  return check_owners(comm::gather_rows(group, mine), group.members());
}

std::vector<int> check_owners(
    const std::vector<std::vector<int64_t>>& stages_of_rank,
    const std::vector<int>& members) {
  const auto name = [&members](size_t rank) {
    return comm::rank_text(static_cast<int>(rank), members);
  };
  size_t count = 0;
  for (const auto& stages : stages_of_rank)
    count += stages.size();
  std::vector<int> owners(count, -1);
  for (size_t rank = 0; rank < stages_of_rank.size(); ++rank) {
    if (stages_of_rank[rank].empty())
      throw InvalidArgument(text(
          "[pipe] expected every rank to have a stage, got none on ",
          name(rank),
          "; make at least as many stages as there are ranks"));
    for (const int64_t stage : stages_of_rank[rank]) {
      if (stage < 0 || index(stage) >= count)
        throw InvalidArgument(text(
            "[pipe] expected the stages 0 to ",
            count - 1,
            " of ",
            count,
            ", got stage ",
            stage,
            " on ",
            name(rank),
            "; number them without gaps over all ranks"));
      int& owner = owners[index(stage)];
      if (owner >= 0)
        throw InvalidArgument(text(
            "[pipe] expected stage ",
            stage,
            " on one rank, got it on ",
            name(index(owner)),
            " and on ",
            name(rank),
            "; give each stage to one of them"));
      owner = static_cast<int>(rank);
    }
  }
  return owners;
}

std::vector<StageSkips> gather_skips(
    const std::vector<Stage>& stages, const comm::Group& group, size_t stage_count) {
  // A row is (stage, saved or taken, length, letters) again and again.
  std::vector<int64_t> mine;
  const auto add = [&mine](int stage, bool saved, const std::string& name) {
    mine.insert(mine.end(), {stage, saved ? 1 : 0, static_cast<int64_t>(name.size())});
    mine.insert(mine.end(), name.begin(), name.end());
  };
  for (const Stage& stage : stages) {
    for (const std::string& name : stage.module->saved_skips())
      add(stage.index, true, name);
    for (const std::string& name : stage.module->taken_skips())
      add(stage.index, false, name);
  }
  std::vector<StageSkips> all(stage_count);
  for (const std::vector<int64_t>& row : comm::gather_rows(group, mine))
    for (size_t at = 0; at < row.size();) {
      StageSkips& stage = all[index(row[at])];
      std::vector<std::string>& names = row[at + 1] != 0 ? stage.saved : stage.taken;
      std::string& name = names.emplace_back();
      const size_t end = at + 3 + index(row[at + 2]);
      for (at += 3; at < end; ++at)
        name.push_back(static_cast<char>(row[at]));
    }
  return all;
}

namespace {

sched::Schedule make_named(
    const PipelineOptions& options,
    const std::vector<int>& rank_of_stage,
    int microbatches) {
  if (sched::is_auto(options.schedule)) {
    sched::OrderProblem problem{
        .rank_of_stage = rank_of_stage,
        .microbatches = microbatches,
        .costs = options.costs};
    if (options.memory_limit)
      problem.memory_limit = *options.memory_limit;
    return sched::make_auto(problem).schedule;
  }
  const int ranks = sched::count_ranks(rank_of_stage);
  const int stages = static_cast<int>(rank_of_stage.size());
  if (stages % ranks != 0)
    throw InvalidArgument(text(
        "[pipe] expected the same number of stages on each of ",
        ranks,
        " ranks for schedule ",
        options.schedule,
        ", got ",
        stages,
        " stages; cut the model otherwise, or use Auto or a custom schedule"));
  return sched::generate(
      options.schedule,
      {.ranks = ranks,
       .microbatches = microbatches,
       .stages_per_rank = stages / ranks});
}

}  // namespace

sched::Schedule make_schedule(
    const PipelineOptions& options,
    const std::vector<int>& rank_of_stage,
    int microbatches) {
  sched::Schedule schedule = options.custom
                                 ? *options.custom
                                 : make_named(options, rank_of_stage, microbatches);
  check_placement(schedule, rank_of_stage);
  return schedule;
}

void check_placement(
    const sched::Schedule& schedule, const std::vector<int>& rank_of_stage) {
  if (schedule.stages() != static_cast<int>(rank_of_stage.size()))
    throw InvalidArgument(text(
        "[pipe] expected ",
        schedule.stages(),
        " stages for schedule ",
        schedule.name,
        ", got ",
        rank_of_stage.size(),
        "; cut the model into as many"));
  for (int stage = 0; stage < schedule.stages(); ++stage)
    if (schedule.owner(stage) != rank_of_stage[index(stage)])
      throw InvalidArgument(text(
          "[pipe] expected stage ",
          stage,
          " on rank ",
          schedule.owner(stage),
          " for schedule ",
          schedule.name,
          ", got it on rank ",
          rank_of_stage[index(stage)],
          "; place the stages as sched::map_stages says"));
}

void check_stages(
    const std::vector<Stage>& stages,
    const PipelineOptions& options,
    const std::vector<int>& rank_of_stage) {
  if (options.store == nullptr)
    throw InvalidArgument(
        "[pipe] expected a store for gradients, got none; leave the option as it is, "
        "which means .grad");
  if (options.channel_bytes < 0)
    throw InvalidArgument(text(
        "[pipe] expected channel_bytes of at least 0, got ",
        options.channel_bytes,
        "; 0 means no bound"));
  StageShapes known;
  for (const Stage& stage : stages) {
    if (!stage.module)
      throw InvalidArgument(text(
          "[pipe] expected a module for stage ",
          stage.index,
          ", got none; make one with make_stage()"));
    known[stage.index] = shapes_of(stage.module->parameters());
  }
  check_tied(options.tied, static_cast<int>(rank_of_stage.size()), known);
}

}  // namespace trireme::pipe
