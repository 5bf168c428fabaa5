#include "trireme/pipe/program.h"

#include <algorithm>
#include <limits>

#include "trireme/core/error.h"
#include "trireme/sched/index.h"
#include "trireme/sched/lower.h"
#include "trireme/sched/prove.h"
#include "trireme/sched/validate.h"

namespace trireme::pipe {
namespace {

using sched::Action;
using sched::ActionKind;
using sched::index;

template <class Predicate>
bool has_action(const sched::Schedule& schedule, Predicate&& is_it) {
  for (const auto& list : schedule.actions)
    for (const Action& action : list)
      if (is_it(action.kind()))
        return true;
  return false;
}

std::vector<int> find_last_backward(const sched::Schedule& schedule) {
  std::vector<int> last(schedule.rank_of_stage.size(), -1);
  for (const auto& list : schedule.actions)
    for (size_t i = 0; i < list.size(); ++i)
      sched::for_each_half(list[i], [&](const Action& half) {
        if (sched::gives_weight_grad(half.kind()))
          last[index(half.stage())] = static_cast<int>(i);
      });
  return last;
}

/// The most activations of each stage that live at once, from F to the end of B or W.
std::vector<int64_t> find_peaks(const sched::Schedule& schedule) {
  std::vector<int64_t> live(schedule.rank_of_stage.size()), most(live.size());
  for (const auto& list : schedule.actions)
    for (const Action& action : list)
      // Of an overlap the forward comes first.
      sched::for_each_half(action, [&](const Action& half) {
        int64_t& now = live[index(half.stage())];
        if (half.kind() == ActionKind::Forward)
          most[index(half.stage())] = std::max(most[index(half.stage())], ++now);
        else if (sched::gives_weight_grad(half.kind()))
          --now;
      });
  return most;
}

/// An activation that has been sent is held while it lives in the stage that made it or
/// in the one that takes it, and a gradient while the activation lives that it is of.
std::vector<int64_t> find_most_held(
    const sched::Schedule& lowered, const sched::ChannelMap& map) {
  const std::vector<int64_t> peaks = find_peaks(lowered);
  std::vector<int64_t> held(map.channels().size());
  for (int stage = 0; stage < lowered.stages(); ++stage) {
    for (const auto& use : map.uses({ActionKind::SendForward, stage, 0}))
      held[index(use.channel)] += peaks[index(stage)] + peaks[index(use.other)];
    for (const auto& use : map.uses({ActionKind::SendBackward, stage, 0}))
      held[index(use.channel)] += peaks[index(use.other)];
  }
  return held;
}

}  // namespace

bool has_backward(const sched::Schedule& schedule) {
  return has_action(schedule, [](ActionKind kind) {
    return sched::gives_weight_grad(kind) || kind == ActionKind::Overlap;
  });
}

Program make_program(sched::Schedule schedule, const ProgramOptions& options) {
  sched::validate(schedule);
  // Receives wait as late as they can, in the list as well: so the proof is about what
  // the runtime does.
  sched::Schedule lowered = schedule.lowered
                                ? sched::defer_receives(schedule)
                                : sched::lower(
                                      schedule,
                                      {.sharding = options.sharding,
                                       .max_active_stages = options.max_active_stages,
                                       .late_receives = true});
  const sched::Proof proof = sched::prove(lowered, {.messages = kChannelMessages});
  if (!proof.holds)
    throw InvalidArgument(text(
        "[pipe] expected a schedule that cannot lock up, got ",
        schedule.name,
        ": ",
        proof.why,
        "; reorder these actions"));
  Program program{
      .schedule = std::move(lowered),
      .channels = sched::ChannelMap(schedule),
      .trains = has_backward(schedule),
  };
  if (program.trains)
    program.most_held = find_most_held(program.schedule, program.channels);
  program.most_held.resize(proof.channels.size(), std::numeric_limits<int64_t>::max());
  for (size_t i = 0; i < proof.channels.size(); ++i)
    program.most_held[i] = std::min(program.most_held[i], proof.channels[i].messages);
  program.last_backward = find_last_backward(program.schedule);
  return program;
}

sched::Schedule forward_schedule(
    const std::vector<int>& rank_of_stage,
    int microbatches,
    std::vector<sched::StageEdge> extra_edges) {
  sched::Schedule schedule{
      .name = "forward",
      .microbatches = microbatches,
      .rank_of_stage = rank_of_stage,
      .extra_edges = std::move(extra_edges)};
  const int stages = static_cast<int>(rank_of_stage.size());
  schedule.actions.resize(index(sched::count_ranks(rank_of_stage)));
  // In every tick, microbatch m is in stage tick - m.
  for (int tick = 0; tick < stages + microbatches - 1; ++tick)
    for (int stage = std::max(0, tick - microbatches + 1);
         stage <= std::min(tick, stages - 1);
         ++stage)
      schedule.actions[index(rank_of_stage[index(stage)])].emplace_back(
          ActionKind::Forward, stage, tick - stage);
  return schedule;
}

}  // namespace trireme::pipe
