// Ranks as threads that pretend to have private memory and little room for staging: so
// the streaming algorithms run on small data, where every off-by-one shows.
#pragma once
#include <vector>

#include "trireme/comm/init.h"
#include "trireme/comm/shared/shared_engine.h"

namespace trireme::comm {

class PrivateHeap : public HeapMemory {
 public:
  bool contains(const void*, size_t) const override { return false; }
};

struct StagedOptions {
  size_t staging_bytes = 4096;
  bool reachable = false;
  /// Where all ranks allocate, if a test looks into it.
  std::shared_ptr<SharedMemory> memory;
};

/// Runs `body` with the engine of every rank.
inline void run_staged(
    int ranks,
    const std::function<void(SharedEngine&)>& body,
    const StagedOptions& options = {}) {
  std::shared_ptr<SharedMemory> memory = options.memory;
  if (!memory && options.reachable)
    memory = std::make_shared<HeapMemory>();
  else if (!memory)
    memory = std::make_shared<PrivateHeap>();
  const uint64_t control = make_world(*memory, ranks);
  std::shared_ptr<std::byte> rings(
      static_cast<std::byte*>(::operator new(
          kFlightRingBytes* static_cast<size_t>(ranks), std::align_val_t(64))),
      [](std::byte* p) { ::operator delete(p, std::align_val_t(64)); });
  std::fill_n(rings.get(), kFlightRingBytes * static_cast<size_t>(ranks), std::byte{0});
  run_threads(
      ranks,
      [&](int rank, const Deadline& deadline) {
        return SharedEngine::root(
            {.rank = rank,
             .size = ranks,
             .memory = memory,
             .control = control,
             .recorder =
                 std::make_shared<FlightRecorder>(rings.get(), rank, ranks, "", rings),
             .backend = "staged",
             .staging_bytes = options.staging_bytes},
            deadline);
      },
      [&](const Group& group) { body(static_cast<SharedEngine&>(group.engine())); },
      {.timeout = std::chrono::seconds(20)});
}

/// A vector as a piece of a collective.
template <class T>
Piece piece_of(std::vector<T>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T)};
}

inline Deadline in_time() {
  return Deadline::after(std::chrono::seconds(20));
}

}  // namespace trireme::comm
