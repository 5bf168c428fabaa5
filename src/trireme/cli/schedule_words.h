// The words of `trireme schedule`, one file each. All return the exit code, and throw
// InvalidArgument for what cannot be done as asked.
#pragma once
#include <iosfwd>

#include "trireme/cli/schedule.h"

namespace trireme::cli {

/// `list`: all schedules that have a name.
int list_schedules(const ScheduleArguments& arguments, std::ostream& out);

/// `show`: one of them, as text, a picture or a file.
int show_schedule(const ScheduleArguments& arguments, std::ostream& out);

/// `check`: whether a file is a schedule that cannot lock up; 1 if it can.
int check_schedule(const ScheduleArguments& arguments, std::ostream& out);

/// `simulate`: how long one takes, and why.
int simulate_schedule(const ScheduleArguments& arguments, std::ostream& out);

/// `plan`: which one suits; 1 if nothing fits into the memory.
int plan_schedule(
    const ScheduleArguments& arguments, std::ostream& out, std::ostream& err);

}  // namespace trireme::cli
