// Errors that one rank alone has found, made known to all.
#pragma once
#include <exception>
#include <functional>

#include "trireme/comm/group.h"

namespace trireme::pipe {

/// Runs `check` on every rank. What it throws on one of them is thrown there, and as a
/// PeerError with the same text on the others; the group stays as it is. Collective.
void agree(const comm::Group& group, const std::function<void()>& check);

}  // namespace trireme::pipe
