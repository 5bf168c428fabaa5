// The steps that collectives over shared memory are made of: publish, meet, read the
// peers.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/comm/collective.h"
#include "trireme/comm/shared/flag.h"
#include "trireme/comm/shared/meeting.h"
#include "trireme/comm/shared/world.h"
#include "trireme/core/deadline.h"

namespace trireme::comm {

/// What one rank publishes of its call: a cache line.
struct alignas(64) CallSlot {
  static constexpr size_t kPayload = 48;
  uint64_t signature = 0;
  /// The last step at which the rank arrived.
  std::atomic<uint32_t> arrived{0};
  /// Set, in the first of a rank's two slots, when the rank has left the group.
  std::atomic<uint32_t> gone{0};
  /// The data itself when it is that small, else where it lies.
  std::byte payload[kPayload];
};

/// The control block of a group: where its ranks meet, and two slots a rank, used in
/// turn.
struct alignas(128) GroupControl {
  Meeting meeting;
  std::atomic<uint32_t> departed{0};
  std::atomic<uint32_t> reclaimed{0};

  static size_t bytes(int size) {
    return sizeof(GroupControl) +
           static_cast<size_t>(size) * (2 * sizeof(CallSlot) + sizeof(uint64_t));
  }
  CallSlot& slot(uint32_t parity, int rank, int size) {
    return reinterpret_cast<CallSlot*>(
        this + 1)[static_cast<int>(parity) * size + rank];
  }
  std::atomic<uint64_t>& staging(int rank, int size) {
    auto* after_slots = reinterpret_cast<CallSlot*>(this + 1) + 2 * size;
    return reinterpret_cast<std::atomic<uint64_t>*>(after_slots)[rank];
  }
};

/// Builds an empty control block in this rank's part of the memory.
uint64_t make_group_control(SharedMemory& memory, int size);

/// One rank's side of a group. All ranks take the same steps with the same sizes, so
/// each knows where the others put their data.
///
/// The rule that makes re-use safe: what a rank writes before step s goes to half s % 2
/// of its staging, and is read between step s and step s + 1. Who writes for step s + 2
/// has passed step s + 1, so everybody has finished reading.
class GroupSteps : private WaitGuard {
 public:
  /// Joins the group: meets all members once. InvalidArgument on all of them if one has
  /// no memory for its staging.
  GroupSteps(
      std::shared_ptr<World> world,
      uint64_t control,
      std::vector<int> members,
      int rank,
      const Deadline& deadline);
  ~GroupSteps() override;
  GroupSteps(const GroupSteps&) = delete;
  GroupSteps& operator=(const GroupSteps&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  /// Counted in `world`.
  const std::vector<int>& members() const { return members_; }
  World& world() const { return *world_; }
  SharedMemory& memory() const { return world_->memory(); }

  /// Starts a call; the deadline holds for all its steps and must outlive them.
  void begin(const Collective& call, const Deadline& deadline);
  /// The first step of every call: publishes it with a payload, meets everybody, and
  /// throws InvalidArgument on every rank unless all made the same call.
  void enter(std::span<const std::byte> payload = {});
  /// A further step: meets everybody. When it throws, nobody passes this step.
  void meet();
  /// The last step of a call whose ranks are in one another's memory. Whatever has
  /// happened to the world, it ends only when no living rank is in ours any more: the
  /// caller may free it. (Processes that do not come by the deadline are not waited
  /// for: they reach shared memory only, which outlives the call.)
  void meet_to_part();

  /// What `peer` published with enter().
  const std::byte* payload(int peer) const { return slot_of(entered_, peer).payload; }

  /// Room in the half of the next step, the same on every rank; at most half_bytes().
  size_t stage(size_t bytes);
  std::byte* staging(int peer, size_t place) const {
    return stagings_[static_cast<size_t>(peer)] + place;
  }
  size_t half_bytes() const { return half_bytes_; }
  /// half_bytes() once this group has all the staging that it may have. At first it has
  /// little, since many groups never need more; all ranks take the rest together, in
  /// the first call that does, after they have entered it, or before the call after
  /// small ones have walked through the little. InvalidArgument on all of them if one
  /// has no memory for it.
  size_t whole_half();

 private:
  CallSlot& slot_of(uint32_t step, int peer) const {
    return control_->slot(step & 1, peer, size());
  }
  bool arrive();
  bool nobody_inside() const;
  void depart();
  std::exception_ptr share_staging(size_t half_bytes);
  size_t most_half() const { return world_->setup().staging_bytes / 2; }
  std::exception_ptr trouble() const override;
  void spinning() const override { world_->settle(); }
  std::string notes_of(const std::vector<int>& ranks) const;
  [[noreturn]] void time_out();
  void compare_calls();

  /// Enough for calls that are staged before the first step, in several places.
  static constexpr size_t kFirstStaging = size_t{512} << 10;
  /// What a rank publishes that has no memory for its staging.
  static constexpr uint64_t kNoStaging = ~uint64_t{0};

  std::shared_ptr<World> world_;
  uint64_t control_offset_;
  GroupControl* control_;
  std::vector<int> members_;
  int rank_;
  size_t half_bytes_ = 0;
  uint64_t staging_offset_ = kNoStaging;
  std::vector<std::byte*> stagings_;
  size_t used_[2] = {0, 0};
  bool walked_through_ = false;
  uint32_t step_;
  uint32_t entered_ = 0;
  uint64_t signature_ = 0;
  uint64_t shown_ = 0;  // what errors say of the call
  const Deadline* deadline_ = nullptr;
};

}  // namespace trireme::comm
