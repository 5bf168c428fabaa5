// Any text as a schedule: it is refused with its place, or every action is on its
// stage's rank and the file comes back; and what is valid can be lowered or is refused.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "trireme/core/error.h"
#include "trireme/sched/csv.h"
#include "trireme/sched/lower.h"
#include "trireme/sched/prove.h"
#include "trireme/sched/simulate.h"
#include "trireme/sched/validate.h"

namespace {

using namespace trireme::sched;

void must(bool holds) {
  if (!holds)
    std::abort();
}

void must_be_in_place(const Schedule& schedule) {
  for (int rank = 0; rank < schedule.ranks(); ++rank)
    for (const Action& action : schedule.actions[static_cast<size_t>(rank)])
      for_each_half(action, [&](const Action& half) {
        if (half.kind() == ActionKind::Bubble)
          return;
        must(half.stage() < schedule.stages());
        must(schedule.owner(half.stage()) == rank);
        must(half.microbatch() < schedule.microbatches || !has_microbatch(half.kind()));
      });
}

void use(const Schedule& schedule) {
  if (schedule.lowered) {
    prove(schedule, {.messages = 0});
    return;
  }
  const bool runs = [&] {
    try {
      simulate(schedule, {});
      return true;
    } catch (const trireme::InvalidArgument&) {
      return false;
    }
  }();
  try {
    const Schedule lowered = lower(schedule);
    must(runs);
    must(!find_flaw(lowered));
    must(prove(lowered, {.messages = 0}).holds);
  } catch (const trireme::InvalidArgument&) {
    must(!runs);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const Schedule schedule = parse_csv(text, "fuzz");
    must_be_in_place(schedule);
    const Schedule again = parse_csv(to_csv(schedule), "fuzz");
    must(again.rank_of_stage == schedule.rank_of_stage);
    must(again.actions == schedule.actions);
    validate(schedule);
    use(schedule);
  } catch (const trireme::InvalidArgument&) {
  }
  return 0;
}
