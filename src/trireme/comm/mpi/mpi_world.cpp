#include "trireme/comm/mpi/mpi_world.h"

#include <exception>
#include <new>
#include <string_view>
#include <sys/mman.h>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

// The recorder finds a rank's ring among those of all; ours is the only one that is
// ever touched, and the system gives memory to that one only.
std::shared_ptr<FlightRecorder> make_recorder(
    int rank, int size, const std::string& folder) {
  const size_t bytes = kFlightRingBytes * static_cast<size_t>(size);
  void* memory = ::mmap(
      nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw std::bad_alloc();
  const std::shared_ptr<void> rings(
      memory, [bytes](void* start) { ::munmap(start, bytes); });
  return std::make_shared<FlightRecorder>(
      static_cast<std::byte*>(rings.get()), rank, size, folder, rings);
}

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
               make_recorder(runtime.rank(), runtime.size(), setup.flight_folder)}),
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
