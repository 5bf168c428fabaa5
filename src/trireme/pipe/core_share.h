// How many cores each rank of a group has.
#pragma once
#include <cstdint>
#include <vector>

#include "trireme/comm/group.h"

namespace trireme::pipe {

/// The cores that the ranks may use together, shared out among them. Collective.
double cores_per_rank(const comm::Group& group);

/// The same from what the ranks have said: the CPUs that each may use; pure.
double cores_per_rank(const std::vector<std::vector<int64_t>>& cpus_of_rank);

}  // namespace trireme::pipe
