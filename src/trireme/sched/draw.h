// Schedules as pictures, and as files for other programs.
#pragma once
#include <string>

#include "trireme/sched/schedule.h"
#include "trireme/sched/simulate.h"

namespace trireme::sched {

/// A grid for a terminal: a row a rank, a column a unit of time, as unit costs give it
/// (F, I and W one, B two). With `color` each kind has its own.
///
///     draw_grid(generate("1F1B", {.ranks = 2, .microbatches = 3}), false);
///     // rank 0  0F0 0F1 .   .   0B0     0F2 .   0B1     ...
std::string draw_grid(const Schedule& schedule, bool color);

/// A row a rank, `width` columns for the whole makespan: in each the letter of what the
/// rank does at its middle (F, B, I, W, or O for an overlap), a point if it waits. The
/// simulation needs details.
///
///     rank 0  FFFFBBBBFFBBBB..
///     rank 1  ..FFBBFFBBFFBBBB
std::string draw_time_rows(const Simulation& simulation, int width);

/// One SVG image, complete in itself, for light and dark backgrounds: a row a rank, a
/// box a computation (two that share time lie one below the other), paler the later its
/// stage is among those of its rank; and of a lowered schedule an arrow a message, from
/// when it leaves to when it is there. The simulation needs details.
std::string draw_svg(const Schedule& schedule, const Simulation& simulation);

/// A Chrome trace, for Perfetto: a process a rank, an event a computation, an arrow a
/// message from what makes it to what uses it; and of a lowered schedule a track of its
/// own with every send and receive. A unit of time is a microsecond. The simulation
/// needs details.
std::string to_trace(const Schedule& schedule, const Simulation& simulation);

/// The schedule as JSON: name, sizes, rank_of_stage and the text of every action.
std::string to_json(const Schedule& schedule);

}  // namespace trireme::sched
