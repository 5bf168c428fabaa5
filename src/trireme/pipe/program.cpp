#include "trireme/pipe/program.h"

#include <algorithm>

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
        proof.why));
  Program program{
      .schedule = std::move(lowered),
      .channels = sched::ChannelMap(schedule),
      .trains = has_backward(schedule),
  };
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
