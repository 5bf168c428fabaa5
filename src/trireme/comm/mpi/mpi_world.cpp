#include "trireme/comm/mpi/mpi_world.h"

#include <exception>
#include <string_view>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

std::string stop_text(int rank, int size, std::string_view why) {
  constexpr std::string_view kModule = "[comm] ";  // once is enough
  if (why.starts_with(kModule))
    why.remove_prefix(kModule.size());
  return text(kModule, "rank ", rank, " of ", size, " stopped the world: ", why);
}

}  // namespace

MpiWorld::MpiWorld(MpiRuntime& runtime, const MpiSetup& setup)
    : WireWorld(
          {.backend = "mpi",
           .rank = runtime.rank(),
           .size = runtime.size(),
           .tuning = setup.tuning,
           .recorder =
               make_own_recorder(runtime.rank(), runtime.size(), setup.flight_folder)}),
      runtime_(runtime),
      policy_(poll_policy(setup.local_ranks)),
      transfer_bytes_(setup.transfer_bytes),
      exceptions_at_start_(std::uncaught_exceptions()) {}

MpiWorld::~MpiWorld() {
  if (std::uncaught_exceptions() <= exceptions_at_start_)
    return;
  const std::string why = "left its world by an exception; see its own output";
  recorder().dump(rank(), why);
  runtime_.fail(stop_text(rank(), size(), why));
}

void MpiWorld::time_out_channel(const std::string& what) const {
  if (!timeout_noted_.exchange(true))
    recorder().dump(rank(), what);
  throw TimeoutError(what);
}

void MpiWorld::stop(const std::string& why) const noexcept {
  recorder().dump(rank(), why);
  runtime_.stop_job(stop_text(rank(), size(), why));
}

}  // namespace trireme::comm
