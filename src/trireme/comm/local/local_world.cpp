#include "trireme/comm/local/local_world.h"

#include <cstdlib>
#include <cstring>

#include "trireme/comm/flight_recorder.h"
#include "trireme/comm/shared/shared_engine.h"
#include "trireme/core/error.h"

namespace trireme::comm {

LocalWorld::LocalWorld(int size, const HostPlace& place)
    : size_(size), place_(place), memory_(std::make_shared<HeapMemory>()) {
  constexpr int kMost = 4096;
  if (size < 1 || size > kMost)
    throw InvalidArgument(text(
        "[comm] expected 1 to ",
        kMost,
        " ranks as threads, got ",
        size,
        "; take another number"));
  control_ = make_world(*memory_, size);
  const size_t rings = kFlightRingBytes * static_cast<size_t>(size);
  flight_ = memory_->allocate(rings);
  std::memset(memory_->at(flight_), 0, rings);
}

std::shared_ptr<Engine> LocalWorld::join(int rank, const Deadline& deadline) const {
  if (rank < 0 || rank >= size_)
    throw InvalidArgument(text(
        "[comm] expected a rank from 0 to ",
        size_ - 1,
        ", got ",
        rank,
        "; give one of these"));
  // Threads leave their flight record only where asked: a debugger sees them all
  // anyway.
  const char* folder = std::getenv("TRIREME_FLIGHT_DIR");
  auto recorder = std::make_shared<FlightRecorder>(
      memory_->at(flight_), rank, size_, folder ? folder : "", memory_);
  return SharedEngine::root(
      {.rank = rank,
       .size = size_,
       .place = place_,
       .memory = memory_,
       .control = control_,
       .recorder = std::move(recorder),
       .backend = size_ == 1 ? "none" : "local",
       .staging_bytes = size_t{size_ == 1 ? 4096U : 4U << 20}},
      deadline);
}

}  // namespace trireme::comm
