// What the words of `trireme schedule` work on: files, costs and schedules.
#pragma once
#include <string>

#include "trireme/cli/schedule.h"
#include "trireme/sched/cost_file.h"
#include "trireme/sched/schedule.h"

namespace trireme::cli {

/// A whole file; InvalidArgument if it is none, or cannot be read.
std::string read_input(const std::string& path);

/// The costs of the file or the flags.
sched::CostFile read_costs(const ScheduleArguments& arguments);

/// The schedule that the arguments name, which may be a file; costs are for Auto.
sched::Schedule read_schedule(
    const ScheduleArguments& arguments, const sched::CostFile& costs);

}  // namespace trireme::cli
