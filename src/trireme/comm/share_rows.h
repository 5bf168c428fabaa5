// A few numbers of every rank, for calls that must agree before data can move.
#pragma once
#include <cstdint>
#include <vector>

#include "trireme/comm/engine.h"

namespace trireme::comm {

/// Everybody's row of numbers, one after the other in rank order. All ranks must pass
/// rows of one length; `kind` keeps them from meeting another call by mistake.
std::vector<int64_t> share_rows(
    Engine& engine,
    CollectiveKind kind,
    std::vector<int64_t> row,
    const Deadline& deadline);

}  // namespace trireme::comm
