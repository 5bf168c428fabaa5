// A text that one rank has, on all ranks.
#pragma once
#include <string>

#include "trireme/comm/group.h"

namespace trireme::train {

/// What rank 0 passes; what others pass does not matter. Collective.
std::string share_text(const comm::Group& group, const std::string& mine);

}  // namespace trireme::train
