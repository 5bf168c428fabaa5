// Finds and ends processes that a job has left behind.
#pragma once
#include <functional>
#include <sys/types.h>
#include <vector>

#include "trireme/core/deadline.h"
#include "trireme/core/proc_text.h"

namespace trireme::launch {

/// The running processes of this host for which `chosen` holds; zombies are not among
/// them.
std::vector<pid_t> find_processes(
    const std::function<bool(pid_t, const ProcessStat&)>& chosen);

/// Ends and reaps all children of this process, theirs as they come to it too (for a
/// process that is a subreaper), until there are none, or the deadline. Gives how many
/// it had to end.
int end_children(const Deadline& deadline);

/// Ends all processes of a session, until there are none, or the deadline.
void end_session(pid_t session, const Deadline& deadline);

}  // namespace trireme::launch
