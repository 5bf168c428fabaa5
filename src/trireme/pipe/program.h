// A schedule made ready to run: lowered and proved.
#pragma once
#include <cstdint>
#include <vector>

#include "trireme/sched/channels.h"
#include "trireme/sched/schedule.h"

namespace trireme::pipe {

/// The room of every channel, in messages: 64 KiB of slots. A step that sends no more
/// than this over each of its channels never waits to send; one that sends more may
/// wait, and its proof counts with that.
inline constexpr int kChannelMessages = 4096;

/// What the ranks of one step carry out.
struct Program {
  sched::Schedule schedule;
  sched::ChannelMap channels;
  /// By channel: no more messages than this are sent and not yet given back at once, in
  /// whatever order the ranks get their turns. What a stage has received lives until
  /// its last backward of that microbatch has ended.
  std::vector<int64_t> most_held;
  /// Whether it has backwards; otherwise it is for evaluation.
  bool trains = true;
  /// The last B or W of each stage, as a place in its rank's list; -1 without backward.
  std::vector<int> last_backward;
};

struct ProgramOptions {
  /// Whether somebody gathers parameters and reduces gradients.
  bool sharding = false;
  int max_active_stages = 3;
};

/// Lowers the schedule, if it is not yet, and proves that it cannot lock up where
/// channels hold kChannelMessages and a receive waits only when its message is needed.
/// InvalidArgument says what is wrong.
Program make_program(sched::Schedule schedule, const ProgramOptions& options = {});

/// Whether it trains.
bool has_backward(const sched::Schedule& schedule);

/// A schedule for evaluation: every stage's forwards, in the order in which a wave of
/// microbatches reaches them. For any map of stages.
sched::Schedule forward_schedule(
    const std::vector<int>& rank_of_stage,
    int microbatches,
    std::vector<sched::StageEdge> extra_edges = {});

}  // namespace trireme::pipe
