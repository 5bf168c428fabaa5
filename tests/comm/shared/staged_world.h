// Ranks as threads that pretend to have private memory and little room for staging: so
// the streaming algorithms run on small data, where every off-by-one shows.
#pragma once
#include <exception>
#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include "trireme/comm/init.h"
#include "trireme/comm/shared/shared_engine.h"
#include "trireme/core/error.h"

namespace trireme::comm {

class PrivateHeap : public HeapMemory {
 public:
  bool contains(const void*, size_t) const override { return false; }
};

/// Memory that refuses some of the requests that a rank (a thread) makes.
class RefusingHeap : public PrivateHeap {
 public:
  uint64_t allocate(size_t bytes) override {
    if (refuse_at > 0 && --refuse_at == 0)
      throw InvalidArgument("[comm] expected room, got none");
    return PrivateHeap::allocate(bytes);
  }
  /// Which of the coming requests of this thread fails, from 1; 0: none.
  static inline thread_local int refuse_at = 0;
};

struct StagedOptions {
  size_t staging_bytes = 4096;
  bool reachable = false;
  /// Where all ranks allocate, if a test looks into it.
  std::shared_ptr<SharedMemory> memory;
  /// Where the world's group begins to count its steps.
  uint32_t first_step = 0;
};

/// Room for the flight records of so many ranks, all empty.
inline std::shared_ptr<std::byte> flight_rings(int ranks) {
  const size_t bytes = kFlightRingBytes * static_cast<size_t>(ranks);
  std::shared_ptr<std::byte> rings(
      static_cast<std::byte*>(::operator new(bytes, std::align_val_t(64))),
      [](std::byte* p) { ::operator delete(p, std::align_val_t(64)); });
  std::fill_n(rings.get(), bytes, std::byte{0});
  return rings;
}

inline Deadline in_time() {
  return Deadline::after(std::chrono::seconds(20));
}

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
  auto& root =
      *memory->as<GroupControl>(memory->as<WorldControl>(control)->root_group.load());
  root.meeting.step.value = options.first_step;
  root.meeting.arrivals = options.first_step * static_cast<uint32_t>(ranks);
  const auto rings = flight_rings(ranks);
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

/// Runs `body` with the steps of every rank, over memory that all can reach. A rank
/// that throws is the test's own mistake: the first such error comes out.
inline void run_steps(int ranks, const std::function<void(GroupSteps&)>& body) {
  const auto memory = std::make_shared<HeapMemory>();
  const uint64_t control = make_world(*memory, ranks);
  std::vector<int> members(static_cast<size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  std::vector<std::exception_ptr> errors(members.size());
  std::vector<std::thread> threads;
  for (const int rank : members)
    threads.emplace_back([&, rank] {
      try {
        const auto world = std::make_shared<World>(WorldSetup{
            .rank = rank,
            .size = ranks,
            .memory = memory,
            .control = control,
            .staging_bytes = 4096});
        GroupSteps steps(
            world, world->control().root_group.load(), members, rank, in_time());
        body(steps);
      } catch (...) {
        errors[static_cast<size_t>(rank)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads)
    thread.join();
  for (const std::exception_ptr& error : errors)
    if (error)
      std::rethrow_exception(error);
}

/// Looks again and again until `ready` says so; false if it did not in time.
inline bool eventually(const std::function<bool()>& ready) {
  const Deadline deadline = in_time();
  while (!ready() && !deadline.expired())
    std::this_thread::yield();
  return ready();
}

/// A vector as a piece of a collective.
template <class T>
Piece piece_of(std::vector<T>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace trireme::comm
