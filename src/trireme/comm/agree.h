// Steps that all ranks take together, or none.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "trireme/comm/group.h"

namespace trireme::comm {

/// Everybody's text, in the order of the ranks. A zero timeout means the group's.
/// Collective.
std::vector<std::string> gather_texts(
    const Group& group, std::string mine, std::chrono::milliseconds timeout = {});

/// The text that rank 0 passes, on all ranks; what others pass does not matter.
/// Collective.
std::string share_text(const Group& group, const std::string& mine);

/// How ranks agree.
struct AgreeOptions {
  /// Who asks, for messages: "dp".
  std::string module;
  /// Zero: the group's timeout.
  std::chrono::milliseconds timeout{0};
};

/// Runs `body` on every rank and gives every rank what all of them returned, in the
/// order of the ranks. What it throws on one of them is thrown there, and as a
/// PeerError with the same text on the others; the group stays as it is. Collective.
std::vector<std::string> agree(
    const Group& group,
    const AgreeOptions& options,
    const std::function<std::string()>& body);

/// The same for what returns nothing.
void check_everywhere(
    const Group& group,
    const AgreeOptions& options,
    const std::function<void()>& check);

}  // namespace trireme::comm
