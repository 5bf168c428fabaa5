#include "trireme/comm/shm/shm_world.h"

#include <cstring>

#include "trireme/comm/flight_recorder.h"
#include "trireme/comm/shared/shared_engine.h"
#include "trireme/comm/shm/process_watch.h"
#include "trireme/comm/shm/region_memory.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

// Rank 0 lays out what all ranks need before anybody can see the segment.
std::shared_ptr<RegionMemory> lay_out(const std::shared_ptr<Segment>& segment) {
  auto memory = std::make_shared<RegionMemory>(segment, 0);
  SegmentHeader& header = segment->header();
  header.control = make_world(*memory, header.stamp.size);
  const size_t rings = kFlightRingBytes * static_cast<size_t>(header.stamp.size);
  header.flight = memory->allocate(rings);
  std::memset(memory->at(header.flight), 0, rings);
  return memory;
}

WorldSetup place_in(
    const std::shared_ptr<Segment>& segment,
    std::shared_ptr<RegionMemory> memory,
    int rank,
    const HostPlace& place,
    const std::string& flight_folder) {
  const SegmentHeader& header = segment->header();
  auto recorder = std::make_shared<FlightRecorder>(
      memory->at(header.flight), rank, header.stamp.size, flight_folder, segment);
  return {
      .rank = rank,
      .size = header.stamp.size,
      .place = place,
      .memory = std::move(memory),
      .control = header.control,
      .recorder = std::move(recorder),
      .backend = "shm",
      .staging_bytes = header.staging_bytes};
}

/// Ranks as the segment counts them, and by what name they find it.
struct ShmStart {
  LaunchEnv env;
  HostPlace place;
  std::string flight_folder;
  Deadline deadline;
  HostJoin join;
};

/// What a rank looks at while rank 0 makes the segment.
void check_first(const ShmStart& start, const RankRoll& roll) {
  if (start.join.check)
    start.join.check();
  check_start(roll, start.place.first_rank);
}

std::shared_ptr<SharedEngine> start(const ShmStart& start) {
  const LaunchEnv& env = start.env;
  constexpr int kMostRanks = 2048;
  if (env.world_size > kMostRanks)
    throw InvalidArgument(text(
        "[comm] expected at most ",
        kMostRanks,
        " ranks in one segment, got WORLD_SIZE=",
        env.world_size,
        "; start fewer"));
  const std::string name = segment_name(env);
  const RankRoll roll = RankRoll::find(Environment::of_process(), name);
  std::shared_ptr<Segment> segment;
  std::shared_ptr<RegionMemory> memory;
  if (env.rank == 0) {
    remove_stale_segments();
    segment = Segment::create(env.world_size);
    memory = lay_out(segment);
    segment->claim(0);
    segment->publish(name);
  } else {
    segment = Segment::attach(name, env.rank, env.world_size, start.deadline, [&] {
      check_first(start, roll);
    });
    memory = std::make_shared<RegionMemory>(segment, env.rank);
  }
  WorldSetup setup =
      place_in(segment, std::move(memory), env.rank, start.place, start.flight_folder);
  setup.neighbours = start.join.neighbours;
  setup.watch = std::make_shared<ProcessWatch>(segment, roll);
  try {
    auto engine = SharedEngine::root(std::move(setup), start.deadline, start.join.made);
    // Everybody has mapped it: without a name it cannot outlive the ranks.
    segment->unlink();
    // A rank that joins once more at once must not find the old name.
    engine->run({.kind = CollectiveKind::Barrier}, start.deadline);
    return engine;
  } catch (...) {
    remove_stale_segments();  // rank 0 may have died and left the name
    throw;
  }
}

}  // namespace

std::shared_ptr<Engine> start_shm(const BackendContext& context) {
  const LaunchEnv& env = context.env;
  if (!env.one_host())
    throw InvalidArgument(text(
        "[comm] expected all ranks on one host for the backend \"shm\", got ",
        env.local_world_size,
        " of ",
        env.world_size,
        " here; take the backend \"mpi\""));
  return start(
      {.env = env,
       .flight_folder = flight_folder(segment_name(env)),
       .deadline = context.deadline});
}

std::shared_ptr<SharedEngine> start_shm_host(
    const BackendContext& context, HostJoin join) {
  const LaunchEnv& env = context.env;
  const HostPlace place{
      .first_rank = env.rank - env.local_rank, .ranks_in_all = env.world_size};
  // Without a flight record: the wire keeps the one of the whole world.
  return start(
      {.env = env.on_this_host(),
       .place = place,
       .deadline = context.deadline,
       .join = std::move(join)});
}

ShmThreadWorld::ShmThreadWorld(int size)
    : segment_(Segment::create(size)), first_(lay_out(segment_)) {}

std::shared_ptr<Engine> ShmThreadWorld::join(int rank, const Deadline& deadline) const {
  auto memory = rank == 0 ? first_ : std::make_shared<RegionMemory>(segment_, rank);
  return SharedEngine::root(
      place_in(segment_, std::move(memory), rank, {}, ""), deadline);
}

}  // namespace trireme::comm
