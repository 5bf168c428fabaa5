// A schedule as a table for messages: a row a step, a column a rank.
#pragma once
#include <string>

#include "trireme/sched/schedule.h"

namespace trireme::sched {

/// A cell of the table.
struct TableCell {
  int rank = 0;
  /// The place in the rank's list; -1: after its end.
  int64_t step = 0;
};

/// The cells around one of them, which is marked as >2F0<. Small schedules are shown as
/// a whole.
std::string table_around(const Schedule& schedule, const TableCell& cell);

}  // namespace trireme::sched
