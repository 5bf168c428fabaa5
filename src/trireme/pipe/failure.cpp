#include "trireme/pipe/failure.h"

#include <c10/util/Exception.h>

#include "trireme/core/error.h"
#include "trireme/pipe/rank_text.h"
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
      rank_text(program.schedule.owner(at.awaited_from), at.members));
}

}  // namespace

std::string describe_failure(
    const Program& program, const FailedAt& at, const std::string& what) {
  const auto& list = program.schedule.actions[sched::index(at.rank)];
  if (sched::index(at.position) >= list.size())
    return text("[pipe] ", rank_text(at.rank, at.members), " failed: ", what);
  const Action& action = list[sched::index(at.position)];
  const std::string deed =
      at.awaited
          ? text("waited at ", sched::to_string(*at.awaited), sender_text(program, at))
          : text("failed at ", sched::to_string(action));
  return text(
      "[pipe] ",
      rank_text(at.rank, at.members),
      " ",
      deed,
      " (",
      place_text(at.awaited ? *at.awaited : action),
      "): ",
      what,
      "\n",
      sched::table_around(program.schedule, {.rank = at.rank, .step = at.position}));
}

void throw_failure(
    const Program& program, const FailedAt& at, const std::exception_ptr& error) {
  const auto describe = [&](const std::exception& e) {
    return describe_failure(program, at, e.what());
  };
  try {
    std::rethrow_exception(error);
  } catch (const PeerError& e) {
    // The other rank has said what happened to it.
    throw PeerError(e.rank(), e.what());
  } catch (const TimeoutError& e) {
    throw TimeoutError(describe(e));
  } catch (const InvalidArgument& e) {
    throw InvalidArgument(describe(e));
  } catch (const NotSupported& e) {
    throw NotSupported(describe(e));
  } catch (const InternalError& e) {
    throw InternalError(describe(e));
  } catch (const c10::Error& e) {
    // Without the stack trace, which says nothing about the model.
    throw PeerError(
        at.world_rank(), describe_failure(program, at, e.what_without_backtrace()));
  } catch (const std::exception& e) {
    throw PeerError(at.world_rank(), describe(e));
  } catch (...) {
    throw PeerError(
        at.world_rank(),
        describe_failure(program, at, "something that is no std::exception"));
  }
}

}  // namespace trireme::pipe
