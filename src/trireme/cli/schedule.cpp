#include "trireme/cli/schedule.h"

#include <new>
#include <ostream>

#include "trireme/cli/output.h"
#include "trireme/cli/schedule_words.h"
#include "trireme/core/error.h"

namespace trireme::cli {
namespace {}  // namespace

int run_schedule(
    const std::string& word,
    const ScheduleArguments& arguments,
    std::ostream& out,
    std::ostream& err) try {
  if (word == "list")
    return list_schedules(arguments, out);
  if (word == "show")
    return show_schedule(arguments, out);
  if (word == "check")
    return check_schedule(arguments, out);
  if (word == "simulate")
    return simulate_schedule(arguments, out);
  return plan_schedule(arguments, out, err);
} catch (const std::bad_alloc&) {
  err << "trireme: [cli] expected memory for this schedule, got none; make it "
         "smaller\n";
  return kWrongUsage;
} catch (const InvalidArgument& error) {
  err << "trireme: " << error.what() << "\n";
  return kWrongUsage;
}

}  // namespace trireme::cli
