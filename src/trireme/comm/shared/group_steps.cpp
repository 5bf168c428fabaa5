#include "trireme/comm/shared/group_steps.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "trireme/comm/wait_budget.h"
#include "trireme/core/error.h"
#include "trireme/core/escape.h"

namespace trireme::comm {

uint64_t make_group_control(SharedMemory& memory, int size) {
  const uint64_t offset = memory.allocate(GroupControl::bytes(size));
  auto* control = new (memory.at(offset)) GroupControl;
  for (int rank = 0; rank < size; ++rank) {
    new (&control->slot(0, rank, size)) CallSlot;
    new (&control->slot(1, rank, size)) CallSlot;
    new (&control->staging(rank, size)) std::atomic<uint64_t>(0);
  }
  return offset;
}

GroupSteps::GroupSteps(
    std::shared_ptr<World> world,
    uint64_t control,
    std::vector<int> members,
    int rank,
    const Deadline& deadline)
    : world_(std::move(world)),
      control_offset_(control),
      control_(world_->memory().as<GroupControl>(control)),
      members_(std::move(members)),
      rank_(rank),
      // Nobody passes a step before we come, so this is where the group begins.
      step_(control_->meeting.step.value.load(std::memory_order_acquire)),
      deadline_(&deadline) {
  memory().reclaim();
  const size_t first = std::min(kFirstStaging, world_->setup().staging_bytes);
  if (const std::exception_ptr error = share_staging(first / 2)) {
    depart();
    std::rethrow_exception(error);
  }
}

// Takes staging together with all members. If one has no memory for it, all keep what
// they had, and get what to throw.
std::exception_ptr GroupSteps::share_staging(size_t half_bytes) {
  uint64_t fresh = kNoStaging;
  std::exception_ptr no_memory;
  try {
    fresh = memory().allocate(2 * half_bytes);
  } catch (...) {
    no_memory = std::current_exception();  // the others are on their way: tell them
  }
  control_->staging(rank_, size()).store(fresh, std::memory_order_relaxed);
  const auto give_back = [this](uint64_t staging) {
    if (staging != kNoStaging)
      memory().release(staging);
  };
  try {
    meet();
  } catch (...) {
    give_back(fresh);
    throw;
  }
  std::vector<std::byte*> stagings;
  std::vector<int> without;
  for (int peer = 0; peer < size(); ++peer) {
    const uint64_t staging =
        control_->staging(peer, size()).load(std::memory_order_relaxed);
    if (staging == kNoStaging)
      without.push_back(members_[static_cast<size_t>(peer)]);
    else
      stagings.push_back(memory().at(staging));
  }
  if (without.empty()) {
    // Nobody reads the old staging any more: all have come here, in this very call.
    give_back(std::exchange(staging_offset_, fresh));
    stagings_ = std::move(stagings);
    half_bytes_ = half_bytes;
    used_[0] = used_[1] = 0;
    return nullptr;
  }
  give_back(fresh);
  if (no_memory)
    return no_memory;
  return std::make_exception_ptr(InvalidArgument(text(
      "[comm] expected ",
      2 * half_bytes,
      " bytes of shared memory on every rank of ",
      world_->group_name(members_),
      ", but there are none on ",
      rank_list(world_->names_of(without)),
      "; see what it says of it")));
}

size_t GroupSteps::whole_half() {
  if (half_bytes_ < most_half())
    if (const std::exception_ptr error = share_staging(most_half()))
      std::rethrow_exception(error);
  return half_bytes_;
}

GroupSteps::~GroupSteps() {
  control_->slot(0, rank_, size()).gone.store(1, std::memory_order_release);
  depart();
}

// A slower member may still be reading our staging: it goes when all have departed, and
// the control block when all have seen that.
void GroupSteps::depart() {
  control_->departed.fetch_add(1, std::memory_order_acq_rel);
  const auto all = static_cast<uint32_t>(size());
  memory().retire([memory = &memory(),
                   control = control_,
                   control_offset = control_offset_,
                   staging = staging_offset_,
                   leader = rank_ == 0,
                   all,
                   freed = false]() mutable {
    if (control->departed.load(std::memory_order_acquire) != all)
      return false;
    if (!freed) {
      if (staging != kNoStaging)
        memory->release(staging);
      freed = true;
      control->reclaimed.fetch_add(1, std::memory_order_acq_rel);
    }
    if (!leader)
      return true;
    if (control->reclaimed.load(std::memory_order_acquire) != all)
      return false;
    memory->release(control_offset);
    return true;
  });
}

void GroupSteps::begin(const Collective& call, const Deadline& deadline) {
  world_->check();
  signature_ = signature(call);
  shown_ = call.part_of != 0 ? call.part_of : signature_;
  deadline_ = &deadline;
  // Without memory for it all go on with what they have: the walk is only shorter.
  if (std::exchange(walked_through_, false) && half_bytes_ < most_half())
    share_staging(most_half());
}

void GroupSteps::enter(std::span<const std::byte> payload) {
  entered_ = step_ + 1;
  CallSlot& mine = slot_of(entered_, rank_);
  mine.signature = signature_;
  if (!payload.empty())
    std::memcpy(mine.payload, payload.data(), payload.size());
  meet();
  for (int peer = 0; peer < size(); ++peer)
    if (slot_of(entered_, peer).signature != signature_) [[unlikely]]
      compare_calls();
}

// True for the last one: everybody may go on.
bool GroupSteps::arrive() {
  ++step_;
  slot_of(step_, rank_).arrived.store(step_, std::memory_order_release);
  return control_->meeting.arrive(step_, size());
}

void GroupSteps::meet() {
  if (arrive())
    return;
  Meeting& meeting = control_->meeting;
  std::exception_ptr trouble;
  try {
    if (wait_until(meeting.step, step_, world_->policy(), *this, *deadline_))
      return;
  } catch (...) {
    trouble = std::current_exception();
  }
  // The peers that come later must not count on us: they would reach into memory that
  // our caller is about to free.
  if (!meeting.withdraw(step_, size()))
    return;
  if (trouble)
    std::rethrow_exception(trouble);
  time_out();
}

void GroupSteps::meet_to_part() {
  if (arrive())
    return;
  Flag& step = control_->meeting.step;
  std::exception_ptr trouble;
  try {
    if (wait_until(step, step_, world_->policy(), *this, *deadline_))
      return;
    time_out();
  } catch (...) {
    trouble = std::current_exception();
  }
  // Ranks that are threads only copy on their way here, and cannot be stopped alone.
  const bool threads = world_->setup().watch == nullptr;
  WaitBudget budget(*deadline_);
  while (!nobody_inside() && (threads || budget.charge()))
    wait_slice(step, step_, kGuardInterval);
  if (!step.reached(step_))
    std::rethrow_exception(trouble);
}

// Whether every other rank has come to this step, or is dead.
bool GroupSteps::nobody_inside() const {
  for (int peer = 0; peer < size(); ++peer)
    if (slot_of(step_, peer).arrived.load(std::memory_order_acquire) != step_ &&
        !world_->has_left(members_[static_cast<size_t>(peer)]) &&
        !world_->has_died(members_[static_cast<size_t>(peer)]))
      return false;
  return true;
}

size_t GroupSteps::stage(size_t bytes) {
  constexpr size_t kLine = 128;
  TRIREME_ASSERT(bytes <= half_bytes_);
  const uint32_t half = (step_ + 1) & 1;
  // Walking through the half, rather than starting over, keeps us off the lines that
  // the peers have just read: those would have to be fetched back from their caches.
  // The whole staging is larger than those, the first is not.
  if (used_[half] + bytes > half_bytes_) {
    used_[half] = 0;
    walked_through_ = true;
  }
  const size_t place = half * half_bytes_ + used_[half];
  used_[half] += (bytes + kLine - 1) / kLine * kLine;
  return place;
}

std::exception_ptr GroupSteps::trouble() const {
  if (auto trouble = world_->trouble(members_))
    return trouble;
  for (int peer = 0; peer < size(); ++peer)
    if (control_->slot(0, peer, size()).gone.load(std::memory_order_acquire) != 0) {
      const int member = world_->name_of(members_[static_cast<size_t>(peer)]);
      return std::make_exception_ptr(PeerError(
          member,
          text(
              "[comm] expected rank ",
              member,
              " to take part, but it has left this group; make every rank call the "
              "same "
              "operations before it closes the group")));
    }
  return nullptr;
}

/// What the first few of these ranks have said of themselves.
std::string GroupSteps::notes_of(const std::vector<int>& ranks) const {
  constexpr int kMost = 2;  // others are told no more than a thousand letters
  std::string notes;
  int count = 0;
  for (const int rank : ranks) {
    const std::string note = world_->control().slot(rank).note.read();
    if (!note.empty() && ++count <= kMost)
      notes += text("; rank ", world_->name_of(rank), " says: ", escaped(note));
  }
  if (count > kMost)
    notes += text("; ", count - kMost, " more have left notes");
  return notes;
}

void GroupSteps::time_out() {
  std::vector<int> missing;
  for (int peer = 0; peer < size(); ++peer)
    if (slot_of(step_, peer).arrived.load(std::memory_order_relaxed) != step_)
      missing.push_back(members_[static_cast<size_t>(peer)]);
  const bool starting = stagings_.empty();
  const std::string group = world_->group_name(members_);
  world_->time_out(text(
      "[comm] expected ",
      size(),
      " ranks at ",
      starting ? text("the start of ", group) : describe(shown_),
      starting ? "" : text(" (step ", step_, " of ", group, ")"),
      " within ",
      deadline_->allowed().count(),
      " ms, but ",
      missing.empty() ? "no rank" : rank_list(world_->names_of(missing)),
      missing.empty() ? " was missing any more" : " did not come",
      "; look at those ranks, or allow more time (TRIREME_TIMEOUT)",
      notes_of(missing)));
}

void GroupSteps::compare_calls() {
  std::vector<uint64_t> signatures;
  for (int peer = 0; peer < size(); ++peer)
    signatures.push_back(slot_of(entered_, peer).signature);
  // The ranks may have staged different amounts: begin again at the same place.
  used_[0] = used_[1] = 0;
  walked_through_ = false;
  throw InvalidArgument(describe_mismatch(signatures, world_->names_of(members_)));
}

}  // namespace trireme::comm
