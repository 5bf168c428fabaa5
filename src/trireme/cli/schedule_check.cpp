// `trireme schedule check` proves that a file cannot lock up.
#include <algorithm>
#include <ostream>

#include "trireme/cli/schedule_input.h"
#include "trireme/cli/schedule_words.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"
#include "trireme/core/parse_number.h"
#include "trireme/sched/csv.h"
#include "trireme/sched/lower.h"
#include "trireme/sched/prove.h"
#include "trireme/sched/validate.h"

namespace trireme::cli {
namespace {

constexpr int kLocksUp = 1;

// "1 message", "2 messages", "3 microbatches".
std::string counted(int64_t count, std::string_view what) {
  return text(count, " ", what, count == 1 ? "" : what.ends_with("ch") ? "es" : "s");
}

sched::Buffers parse_buffers(const std::string& word) {
  if (word == "unbounded")
    return {};
  if (word == "rendezvous")
    return {.messages = 0};
  const auto messages = parse_number<int>(word);
  if (!messages || *messages < 0)
    throw InvalidArgument(text(
        "[cli] expected --buffers to be a number, unbounded or rendezvous, got ",
        in_quotes(word),
        "; give one of these"));
  return {.messages = *messages};
}

}  // namespace

int check_schedule(const ScheduleArguments& arguments, std::ostream& out) {
  sched::Schedule schedule =
      sched::parse_csv(read_input(arguments.what), arguments.what);
  sched::validate(schedule);
  if (arguments.lowered && !schedule.lowered)
    throw InvalidArgument(text(
        "[cli] expected a lowered schedule, got ",
        in_quotes(arguments.what),
        " without sends and receives; leave out --lowered"));
  const bool was_lowered = schedule.lowered;
  try {
    if (!was_lowered)
      schedule = sched::lower(schedule);
  } catch (const InvalidArgument& error) {
    // It is complete, so this is a cycle, as prove() would find it.
    out << "locks up: " << error.what() << "\n";
    return kLocksUp;
  }
  const sched::Buffers buffers = parse_buffers(arguments.buffers);
  const sched::Proof proof = sched::prove(schedule, buffers);
  if (!proof.holds) {
    out << "locks up: " << proof.why;
    if (proof.buffers_needed)
      out << "; with channels that hold " << counted(*proof.buffers_needed, "message")
          << " it does not";
    out << "\n";
    return kLocksUp;
  }
  int64_t messages = 0, live = 0;
  for (const auto& use : proof.channels)
    messages = std::max(messages, use.messages);
  for (const int64_t peak : proof.peak_activations)
    live = std::max(live, peak);
  out << "ok: " << counted(schedule.ranks(), "rank") << ", "
      << counted(schedule.stages(), "stage") << ", "
      << counted(schedule.microbatches, "microbatch") << "; "
      << (was_lowered ? "" : "lowered, it ") << "cannot lock up with "
      << sched::to_string(buffers) << "; at most " << counted(messages, "message")
      << " on a channel, " << counted(live, "live activation") << " on a rank\n";
  return 0;
}

}  // namespace trireme::cli
