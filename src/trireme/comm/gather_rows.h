// Numbers of every rank, for every rank.
#pragma once
#include <cstdint>
#include <vector>

#include "trireme/comm/group.h"

namespace trireme::comm {

/// Everybody's row, in the order of the ranks; rows may have different lengths.
/// Collective.
std::vector<std::vector<int64_t>> gather_rows(
    const Group& group, const std::vector<int64_t>& mine);

}  // namespace trireme::comm
