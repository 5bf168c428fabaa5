// What the ranks of one world share besides their data: who is there, who failed, and
// what may be freed. One World object a rank and generation.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/comm/collective.h"
#include "trireme/comm/engine.h"
#include "trireme/comm/flight_recorder.h"
#include "trireme/comm/group_id.h"
#include "trireme/comm/shared/core_seats.h"
#include "trireme/comm/shared/flag.h"
#include "trireme/comm/shared/meeting.h"
#include "trireme/comm/shared/memory.h"
#include "trireme/comm/shared/rank_cores.h"
#include "trireme/core/deadline.h"

namespace trireme::comm {

/// A short text that one rank writes and others may read at any moment, half of a new
/// one included.
class SharedText {
 public:
  void write(std::string_view text);
  std::string read() const;

 private:
  std::array<std::atomic<char>, 320> bytes_{};
};

/// One rank's corner of the control block. Only that rank writes it.
struct alignas(128) RankSlot {
  enum State : uint32_t { Absent, Present, Left };
  std::atomic<uint32_t> state{Absent};
  int32_t pid = 0;
  /// Where it may run, written before it is present.
  RankCores cores;
  /// The core on which the rank was seen last, or -1.
  std::atomic<int32_t> core{-1};
  /// The list of channels that this rank sends on (channel_directory.h), and a counter
  /// of its changes.
  std::atomic<uint32_t> channel_count{0};
  std::atomic<uint64_t> channel_page{0};
  Flag channels;
  /// Rung by peers while some thread of this rank waits for any of its channels.
  Flag bell;
  std::atomic<uint32_t> listeners{0};
  /// Why this rank stops the world, written before it does.
  int32_t origin = -1;
  uint32_t timed_out = 0;
  char reason[1012] = {};
  /// What it is at, for those who wait for it.
  SharedText note;
  /// The renewal that the rank has come to, or last came to: it waits for the others.
  std::atomic<uint32_t> renewing{0};
};

/// The control block of one generation of a world; the slots of its ranks follow it.
struct alignas(128) WorldControl {
  /// The rank that stopped the world, plus one; its slot says why. One word, set at
  /// once: a rank that dies on the way leaves nothing half done.
  std::atomic<int32_t> stopped_by{0};
  /// When somebody last looked for dead ranks, and who: milliseconds << 12 | rank + 1.
  /// One of those who wait looks for all of them.
  std::atomic<int64_t> last_look{0};
  /// Offset of the root group's control block.
  std::atomic<uint64_t> root_group{0};
  /// Where the ranks meet that have stopped using this generation. There may be several
  /// renewals, if the ranks could not begin the next generation.
  Meeting renewal;
  /// The control block of the next generation, made by rank 0 before it comes there:
  /// of even and of odd renewals.
  std::atomic<uint64_t> next_control[2] = {0, 0};

  /// Whether all ranks have stopped using this generation. Whatever is still called in
  /// it throws.
  bool renewed() const { return renewal.step.reached(1); }
  /// Wakes a rank that listens. To be called after what it is to see, which was posted
  /// to a Flag: either it sees that, or we see that it listens. (Where a processor
  /// orders less, it looks by itself every 20 ms.)
  void ring(int rank) {
    RankSlot& its = slot(rank);
    if (its.listeners.load(std::memory_order_seq_cst) != 0) [[unlikely]]
      its.bell.add_one();
  }
  RankSlot& slot(int rank) { return reinterpret_cast<RankSlot*>(this + 1)[rank]; }
  static size_t bytes(int size) {
    return sizeof(WorldControl) + sizeof(RankSlot) * static_cast<size_t>(size);
  }
};

/// Builds an empty control block at `place`, which has WorldControl::bytes(size).
WorldControl* make_world_control(std::byte* place, int size);

/// Finds ranks whose process is gone. Ranks that are threads need none.
class PeerWatch {
 public:
  virtual ~PeerWatch() = default;
  /// All ranks that are known to be dead.
  virtual std::vector<int> find_dead() = 0;
  /// Whether the last look could tell of every rank that has come. Who does not see all
  /// must not look on behalf of the others.
  virtual bool sees_all() { return true; }
  bool is_dead(int rank) {
    const std::vector<int> dead = find_dead();
    return std::find(dead.begin(), dead.end(), rank) != dead.end();
  }
};

/// Where ranks have their place in a larger world, of which they are one host.
struct HostPlace {
  /// The larger world's rank of their first.
  int first_rank = 0;
  /// How many ranks that world has; zero: there is no larger one.
  int ranks_in_all = 0;
};

/// Everything a rank needs to join a world.
struct WorldSetup {
  int rank = 0;
  int size = 1;
  /// Errors name ranks by it.
  HostPlace place;
  /// Ranks of the larger world that share this machine, but not this world.
  std::vector<RankCores> neighbours;
  std::shared_ptr<SharedMemory> memory;
  uint64_t control = 0;
  std::shared_ptr<PeerWatch> watch;
  /// Needed by engines; a world alone does without.
  std::shared_ptr<FlightRecorder> recorder;
  WaitPolicy policy;
  std::string backend;
  /// Staging that a group of this world takes a rank.
  size_t staging_bytes = size_t{4} << 20;
};

/// A rank's hold on its world. Leaves when destroyed: cleanly, or, if an exception is
/// on its way, by telling the others.
class World : public Doorbell {
 public:
  explicit World(WorldSetup setup);
  ~World() override;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return setup_.rank; }
  int size() const { return setup_.size; }
  /// The rank by which errors name one of ours.
  int name_of(int rank) const { return rank + setup_.place.first_rank; }
  std::vector<int> names_of(std::span<const int> ranks) const;
  /// "the world", "the group of ranks 1 and 3".
  std::string group_name(std::span<const int> ranks) const;
  const WorldSetup& setup() const { return setup_; }
  SharedMemory& memory() const { return *setup_.memory; }
  FlightRecorder& recorder() const { return *setup_.recorder; }
  WorldControl& control() const { return *control_; }
  const WaitPolicy& policy() const { return setup_.policy; }

  /// Decides how to wait, from the cores of all ranks and neighbours; for when all have
  /// come.
  void choose_policy();

  /// Looks for a core of our own, while spinning.
  void settle() const { seats_.settle(); }

  /// Null while all `members` can still answer; else what to throw.
  std::exception_ptr trouble(std::span<const int> members) const;
  /// Throws what the world was stopped by, if it was.
  void check() const {
    if (control_->stopped_by.load(std::memory_order_acquire) != 0) [[unlikely]]
      std::rethrow_exception(stopped());
  }

  /// Stops the world; the first reason wins. Everybody throws PeerError, or
  /// TimeoutError if `timed_out`.
  void stop(const Failure& failure) const noexcept;
  /// Stops the world because a wait of ours ran out, and throws TimeoutError.
  [[noreturn]] void time_out(const std::string& reason) const;
  /// Writes this rank's flight record, once, because a message did not come in time.
  /// The world goes on: channels are independent of one another.
  void note_timeout(const std::string& reason) const;

  /// Whom to tell when this rank is the first to stop the world: another world, of
  /// which it is a part. Called once, from any thread; must not block.
  void on_stop(std::function<void(const Failure&)> tell);

  /// This rank's bell.
  void listen() override;
  void stop_listening() noexcept override;
  void ring() override { control_->ring(rank()); }
  uint32_t rings() const override;
  void await_ring(uint32_t seen, std::chrono::milliseconds limit) override;

  /// Whether a rank has left, as it should.
  bool has_left(int peer) const;
  /// Whether a rank's process has ended without leaving.
  bool has_died(int peer) const;

  /// Numbers for the groups that this rank leads.
  GroupIds& group_ids() { return group_ids_; }

  /// Meets all ranks and gives the control block of the next generation, which rank 0
  /// makes with `make_next`; PeerError names who is gone, TimeoutError who did not
  /// come. After an error it may be called again.
  uint64_t renew(const Deadline& deadline, const std::function<uint64_t()>& make_next);

 private:
  /// True if this was the first reason.
  bool publish(const Failure& failure) const noexcept;
  std::exception_ptr stopped() const;
  void find_dead() const;
  bool take_turn_to_look() const;
  void await_renewal(uint32_t number, const Deadline& deadline) const;
  void dump_flight(std::span<const int> ranks) const;

  WorldSetup setup_;
  WorldControl* control_;
  int exceptions_at_start_;
  mutable CoreSeats seats_;
  mutable std::function<void(const Failure&)> tell_stop_;  // under stop_mutex_
  mutable std::mutex stop_mutex_;
  mutable std::mutex watch_mutex_;
  mutable Deadline::Clock::time_point next_watch_{};
  mutable std::atomic<bool> dumped_{false};
  mutable std::atomic<bool> timeout_noted_{false};
  uint32_t renewals_ = 0;   // that all ranks have come to
  uint32_t next_made_ = 0;  // the renewal for which rank 0 has made a control block
  GroupIds group_ids_{rank(), size()};
};

/// A guard over some ranks of a world, for wait_until().
class WorldGuard : public WaitGuard {
 public:
  WorldGuard(const World& world, std::span<const int> members)
      : world_(world), members_(members) {}
  std::exception_ptr trouble() const override { return world_.trouble(members_); }
  void spinning() const override { world_.settle(); }

 private:
  const World& world_;
  std::span<const int> members_;
};

}  // namespace trireme::comm
