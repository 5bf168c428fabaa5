// What each rank of a lowered schedule can know of the others, from the messages that
// it has received.
#pragma once
#include <cstdint>
#include <vector>

#include "trireme/sched/channels.h"
#include "trireme/sched/schedule.h"

namespace trireme::sched {

/// For every channel and message: up to which step of its list the receiver must have
/// come when the message is sent, in whatever order the ranks get their turns. By
/// vector clocks, so it takes time and memory for messages x ranks. The program must
/// run to its end with unbounded buffers.
std::vector<std::vector<uint32_t>> receiver_progress(
    const Schedule& lowered, const ChannelMap& map);

}  // namespace trireme::sched
