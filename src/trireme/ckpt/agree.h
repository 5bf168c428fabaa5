// Steps that all ranks take together, or none.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "trireme/comm/group.h"

namespace trireme::ckpt {

/// Runs `body` on every rank and gives every rank what all of them returned, in the
/// order of the ranks. What it throws on one of them is thrown there, and as a
/// PeerError with the same text on the others; the group stays as it is. A zero timeout
/// means the group's. Collective.
std::vector<std::string> agree(
    const comm::Group& group,
    std::chrono::milliseconds timeout,
    const std::function<std::string()>& body);

}  // namespace trireme::ckpt
