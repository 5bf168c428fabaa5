#include "trireme/pipe/failure.h"

#include <c10/util/Exception.h>

#include "trireme/comm/collective.h"
#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/sched/action_text.h"
#include "trireme/sched/index.h"
#include "trireme/sched/table.h"

namespace trireme::pipe {
namespace {

using sched::Action;
using sched::ActionKind;

/// "stage 1, microbatch 3", or both of an overlap.
std::string place_text(const Action& action) {
  std::string places;
  sched::for_each_half(action, [&places](const Action& half) {
    places += text(places.empty() ? "" : " and ", "stage ", half.stage());
    if (sched::has_microbatch(half.kind()))
      places += text(", microbatch ", half.microbatch());
  });
  return places;
}

/// "for 0SEND_F3 of rank 0".
std::string sender_text(const Program& program, const FailedAt& at) {
  const bool forward = at.awaited->kind() == ActionKind::ReceiveForward;
  const Action send(
      forward ? ActionKind::SendForward : ActionKind::SendBackward,
      at.awaited_from,
      at.awaited->microbatch());
  return text(
      " for ",
      sched::to_string(send),
      " of ",
      comm::rank_text(program.schedule.owner(at.awaited_from), at.members));
}

}  // namespace

namespace {

/// "rank 1 failed at 1F3 (stage 1, microbatch 3)".
std::string deed_text(const Program& program, const FailedAt& at) {
  const auto& list = program.schedule.actions[sched::index(at.rank)];
  const std::string who = comm::rank_text(at.rank, at.members);
  if (sched::index(at.position) >= list.size())
    return text(who, " failed");
  const Action& action = list[sched::index(at.position)];
  return text(
      who,
      at.awaited
          ? text(" waited at ", sched::to_string(*at.awaited), sender_text(program, at))
          : text(" failed at ", sched::to_string(action)),
      " (",
      place_text(at.awaited ? *at.awaited : action),
      ")");
}

/// The schedule around it, if it was in the schedule.
std::string surroundings(const Program& program, const FailedAt& at) {
  const auto& list = program.schedule.actions[sched::index(at.rank)];
  if (sched::index(at.position) >= list.size())
    return {};
  return text(
      "\n",
      sched::table_around(program.schedule, {.rank = at.rank, .step = at.position}));
}

}  // namespace

std::string describe_failure(
    const Program& program, const FailedAt& at, const std::string& what) {
  return text("[pipe] ", deed_text(program, at), ": ", what, surroundings(program, at));
}

std::string error_text(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& e) {
    return e.what_without_backtrace();
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "something that is no std::exception";
  }
}

void throw_failure(
    const Program& program, const FailedAt& at, const std::exception_ptr& error) {
  const std::string where =
      text("[pipe] ", deed_text(program, at), surroundings(program, at));
  const auto both = [&](const std::exception& e) {
    return text(e.what(), "\n", where);
  };
  try {
    std::rethrow_exception(error);
  } catch (const PeerError&) {
    throw;
  } catch (const TimeoutError& e) {
    throw TimeoutError(describe_failure(program, at, e.what()));
  } catch (const InvalidArgument& e) {
    throw InvalidArgument(both(e));
  } catch (const NotSupported& e) {
    throw NotSupported(both(e));
  } catch (const InternalError& e) {
    throw InternalError(both(e));
  } catch (c10::Error& e) {
    e.add_context(where);
    throw;
  } catch (...) {
    TRIREME_LOG(error, "pipe") << deed_text(program, at) << ": " << error_text(error);
    throw;
  }
}

}  // namespace trireme::pipe
