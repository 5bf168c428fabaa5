// A step as rows of letters: a picture for any terminal.
#pragma once
#include <string>

#include "trireme/sched/simulate.h"

namespace trireme::train {

/// A row a rank, `width` columns for the whole makespan: in each the letter of what the
/// rank does at its middle (F, B, I, W, or O for an overlap), a point if it waits. The
/// simulation needs details.
///
///     rank 0  FFFFBBBBFFBBBB..
///     rank 1  ..FFBBFFBBFFBBBB
std::string draw_time_rows(const sched::Simulation& simulation, int width);

}  // namespace trireme::train
