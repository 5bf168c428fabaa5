// Schedules as CSV files, as torch reads and writes them: a row a rank, a cell an
// action, no header.
#pragma once
#include <string>
#include <string_view>

#include "trireme/sched/schedule.h"

namespace trireme::sched {

/// The file of a schedule; bubbles are empty cells.
std::string to_csv(const Schedule& schedule);

/// Reads such a file: either kind, told by what is in it. The owners of the stages and
/// the number of microbatches follow from the cells. Ends of lines may be those of
/// Windows, cells may be in double quotes. InvalidArgument names line, column and cell:
/// for an empty file, a token that is no action, a stage on two ranks, a stage that is
/// nowhere. Everything else is validate()'s.
Schedule parse_csv(std::string_view file, const std::string& name);

}  // namespace trireme::sched
