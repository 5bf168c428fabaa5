// Whether a schedule is one: complete, in order, and every stage with its rank.
#pragma once
#include <optional>
#include <string>

#include "trireme/sched/schedule.h"
#include "trireme/sched/table.h"

namespace trireme::sched {

/// What is wrong with a schedule, and where.
struct Flaw {
  TableCell cell;
  std::string what;
};

/// The first flaw, or nothing. Checks each rank's list by itself, and for lowered
/// schedules that sends and receives belong together; whether the ranks then wait for
/// one another in a cycle is prove()'s question.
///
/// - every stage has each microbatch's F once and then its B once, or its I and later
///   its W; a schedule without any backward is one for evaluation
/// - a stage's actions are on the rank that owns it
/// - lowered: what comes from another rank is received before it is used, and sent
///   after it is made; a stage that is ever unsharded is so when it computes, and its
///   gradients are reduced
std::optional<Flaw> find_flaw(const Schedule& schedule);

/// InvalidArgument with the flaw and the table around it, the bad cell marked.
void validate(const Schedule& schedule);

/// Only whether all stages exist and every action is on its stage's rank, so that the
/// rest can be looked at: InvalidArgument as above.
void check_places(const Schedule& schedule);

}  // namespace trireme::sched
