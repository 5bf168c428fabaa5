#include "trireme/comm/shared/world.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <unistd.h>

#include "trireme/comm/wait_budget.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

constexpr std::chrono::milliseconds kWatchInterval{10};
// Who looked last goes on looking; when it waits no longer, another takes over.
constexpr std::chrono::milliseconds kTakeOver{100};
constexpr int kRankBits = 12;

}  // namespace

void SharedText::write(std::string_view text) {
  const size_t count = std::min(text.size(), bytes_.size() - 1);
  for (size_t i = 0; i < count; ++i)
    bytes_[i].store(text[i], std::memory_order_relaxed);
  bytes_[count].store(0, std::memory_order_relaxed);
}

std::string SharedText::read() const {
  std::string text;
  for (const std::atomic<char>& byte : bytes_) {
    const char c = byte.load(std::memory_order_relaxed);
    if (c == 0)
      break;
    text += c;
  }
  return text;
}

WorldControl* make_world_control(std::byte* place, int size) {
  auto* control = new (place) WorldControl;
  for (int rank = 0; rank < size; ++rank)
    new (&control->slot(rank)) RankSlot;
  return control;
}

World::World(WorldSetup setup)
    : setup_(std::move(setup)),
      control_(setup_.memory->as<WorldControl>(setup_.control)),
      exceptions_at_start_(std::uncaught_exceptions()),
      seats_(rank(), size(), [this](int peer) -> std::atomic<int32_t>& {
        return control_->slot(peer).core;
      }) {
  RankSlot& slot = control_->slot(rank());
  slot.pid = getpid();
  slot.cores = RankCores::of_this_thread();
  slot.state.store(RankSlot::Present, std::memory_order_release);
}

World::~World() {
  if (std::uncaught_exceptions() > exceptions_at_start_)
    stop(
        {.origin = name_of(rank()),
         .why = text(
             "[comm] rank ",
             name_of(rank()),
             " left its world by an exception; see its own output")});
  // The last to leave lets go of what was never received. A later generation shares the
  // memory, and still needs what it retired itself. Sequentially consistent: of two
  // that leave at once, one at least must see the other gone.
  control_->slot(rank()).state.store(RankSlot::Left, std::memory_order_seq_cst);
  bool last = true;
  for (int peer = 0; peer < size(); ++peer)
    last = last && control_->slot(peer).state.load(std::memory_order_seq_cst) !=
                       RankSlot::Present;
  if (last && control_->renewed())
    memory().reclaim();
  else if (last)
    memory().forget_retired();
}

std::vector<int> World::names_of(std::span<const int> ranks) const {
  std::vector<int> names(ranks.begin(), ranks.end());
  for (int& each : names)
    each = name_of(each);
  return names;
}

std::string World::group_name(std::span<const int> ranks) const {
  return group_text(
      names_of(ranks),
      setup_.place.ranks_in_all > 0 ? setup_.place.ranks_in_all : size());
}

bool World::publish(const Failure& failure) const noexcept {
  std::lock_guard lock(stop_mutex_);  // several threads of this rank may fail at once
  if (control_->stopped_by.load(std::memory_order_acquire) != 0)
    return false;
  RankSlot& slot = control_->slot(rank());
  slot.origin = failure.origin;
  slot.timed_out = failure.timed_out ? 1 : 0;
  std::strncpy(slot.reason, failure.why.c_str(), sizeof slot.reason - 1);
  slot.reason[std::min(failure.why.size(), sizeof slot.reason - 1)] = 0;
  int32_t nobody = 0;
  return control_->stopped_by.compare_exchange_strong(
      nobody, rank() + 1, std::memory_order_acq_rel);
}

void World::stop(const Failure& failure) const noexcept {
  if (!publish(failure))
    return;
  // Who stops the world writes down what everybody did: some may be dead, or asleep.
  std::vector<int> everybody(static_cast<size_t>(size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  dump_flight(everybody);
  std::function<void(const Failure&)> tell;
  {
    std::lock_guard lock(stop_mutex_);
    tell.swap(tell_stop_);
  }
  if (tell)
    tell(failure);
}

void World::on_stop(std::function<void(const Failure&)> tell) {
  std::lock_guard lock(stop_mutex_);
  tell_stop_ = std::move(tell);
}

void World::time_out(const std::string& reason) const {
  stop({.origin = name_of(rank()), .why = reason, .timed_out = true});
  // Another rank may have been first, with a better reason.
  check();
  throw TimeoutError(reason);
}

std::exception_ptr World::stopped() const {
  const int self[] = {rank()};
  dump_flight(self);
  const RankSlot& by = control_->slot(control_->stopped_by.load() - 1);
  const std::string reason = by.reason;
  if (by.timed_out != 0)
    return std::make_exception_ptr(TimeoutError(reason));
  return std::make_exception_ptr(PeerError(by.origin, reason));
}

std::exception_ptr World::trouble(std::span<const int> members) const {
  find_dead();
  if (control_->stopped_by.load(std::memory_order_acquire) != 0)
    return stopped();
  for (const int member : members)
    if (control_->slot(member).state.load(std::memory_order_acquire) == RankSlot::Left)
      return std::make_exception_ptr(PeerError(
          name_of(member),
          text(
              "[comm] expected rank ",
              name_of(member),
              " to take part, but it has left the world; make every rank call the same "
              "operations")));
  return nullptr;
}

// One of all that wait looks for the others, too: then only that one makes system
// calls, and has a descriptor for every peer.
bool World::take_turn_to_look() const {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      Deadline::Clock::now().time_since_epoch());
  int64_t last = control_->last_look.load(std::memory_order_relaxed);
  const auto passed = now - std::chrono::milliseconds(last >> kRankBits);
  const bool was_me = (last & ((1 << kRankBits) - 1)) == rank() + 1;
  // Below zero: of a rank whose clock is another one.
  if (passed.count() >= 0 && passed < (was_me ? kWatchInterval : kTakeOver))
    return false;
  return control_->last_look.compare_exchange_strong(
      last, now.count() << kRankBits | (rank() + 1), std::memory_order_relaxed);
}

void World::find_dead() const {
  if (!setup_.watch)
    return;
  std::unique_lock lock(watch_mutex_, std::try_to_lock);
  const auto now = Deadline::Clock::now();
  if (!lock.owns_lock() || now < next_watch_)
    return;
  next_watch_ = now + kWatchInterval;
  if (setup_.watch->sees_all() && !take_turn_to_look())
    return;
  const std::vector<int> dead = setup_.watch->find_dead();
  if (!setup_.watch->sees_all())
    control_->last_look.store(0, std::memory_order_relaxed);  // not for the others
  for (const int peer : dead) {
    const RankSlot& slot = control_->slot(peer);
    // Read after the watch was asked: a rank that leaves and ends in between is not
    // dead.
    const uint32_t state = slot.state.load(std::memory_order_acquire);
    if (peer == rank() || state == RankSlot::Left)
      continue;
    stop(
        {.origin = name_of(peer),
         .why = state == RankSlot::Absent
                    ? text(
                          "[comm] expected rank ",
                          name_of(peer),
                          " to join the world, but its process has ended; see its own "
                          "output")
                    : text(
                          "[comm] expected rank ",
                          name_of(peer),
                          " to be alive, but its process (pid ",
                          slot.pid,
                          ") ended without leaving; see its own output")});
  }
}

void World::note_timeout(const std::string& reason) const {
  if (setup_.recorder && !timeout_noted_.exchange(true))
    recorder().dump(rank(), reason);
}

void World::dump_flight(std::span<const int> ranks) const {
  if (!setup_.recorder || dumped_.exchange(true))
    return;
  const std::string reason = control_->slot(control_->stopped_by.load() - 1).reason;
  for (const int each : ranks)
    recorder().dump(each, reason);
}

bool World::has_left(int peer) const {
  return control_->slot(peer).state.load(std::memory_order_acquire) == RankSlot::Left;
}

bool World::has_died(int peer) const {
  if (!setup_.watch || peer == rank())
    return false;
  std::lock_guard lock(watch_mutex_);
  // Asked before the state is read: a rank that leaves and ends in between is not dead.
  return setup_.watch->is_dead(peer) && !has_left(peer);
}

// Returns when every rank has come to this renewal. When it throws, nobody passes it.
void World::await_renewal(uint32_t number, const Deadline& deadline) const {
  Meeting& renewal = control_->renewal;
  WaitBudget budget(deadline);
  std::exception_ptr error;
  while (!error) {
    const auto slice =
        std::min<std::chrono::nanoseconds>(budget.left(), kGuardInterval);
    if (wait_slice(renewal.step, number, slice))
      return;
    const bool in_time = budget.charge();
    std::vector<int> missing;
    for (int peer = 0; peer < size(); ++peer)
      if (control_->slot(peer).renewing.load(std::memory_order_acquire) != number)
        missing.push_back(peer);
    // The dead before those who have left: they did so for want of the dead.
    const auto end = missing.end();
    auto gone =
        std::find_if(missing.begin(), end, [this](int peer) { return has_died(peer); });
    if (gone == end)
      gone = std::find_if(
          missing.begin(), end, [this](int peer) { return has_left(peer); });
    if (gone != end)
      error = std::make_exception_ptr(PeerError(
          name_of(*gone),
          text(
              "[comm] expected all ",
              size(),
              " ranks to renew the group, but rank ",
              name_of(*gone),
              " is gone; start the job again")));
    else if (!in_time)
      error = std::make_exception_ptr(TimeoutError(text(
          "[comm] expected all ",
          size(),
          " ranks to renew the group within ",
          deadline.allowed().count(),
          " ms, but ",
          missing.empty() ? "no rank" : rank_list(names_of(missing)),
          missing.empty() ? " was missing any more" : " did not come",
          "; renew again when all ranks can")));
  }
  if (!renewal.withdraw(number, size()))
    return;
  control_->slot(rank()).renewing.store(number - 1, std::memory_order_release);
  std::rethrow_exception(error);
}

uint64_t World::renew(
    const Deadline& deadline, const std::function<uint64_t()>& make_next) {
  const uint32_t number = renewals_ + 1;
  std::atomic<uint64_t>& next = control_->next_control[number % 2];
  // Before we arrive, for this may fail; what a former try has made still serves.
  if (rank() == 0 && next_made_ != number) {
    next.store(make_next(), std::memory_order_relaxed);
    next_made_ = number;
  }
  control_->slot(rank()).renewing.store(number, std::memory_order_release);
  if (!control_->renewal.arrive(number, size()))
    await_renewal(number, deadline);
  renewals_ = number;
  publish(
      {.origin = name_of(rank()),
       .why = "[comm] expected the renewed group, got the old one; use what renew() "
              "gave"});
  return next.load(std::memory_order_relaxed);
}

void World::listen() {
  control_->slot(rank()).listeners.fetch_add(1, std::memory_order_seq_cst);
}

void World::stop_listening() noexcept {
  control_->slot(rank()).listeners.fetch_sub(1, std::memory_order_relaxed);
}

uint32_t World::rings() const {
  return control_->slot(rank()).bell.value.load(std::memory_order_seq_cst);
}

void World::await_ring(uint32_t seen, std::chrono::milliseconds limit) {
  const WorldGuard guard(*this, {});
  wait_until(
      control_->slot(rank()).bell, seen + 1, policy(), guard, Deadline::after(limit));
}

void World::choose_policy() {
  std::vector<RankCores> cores = setup_.neighbours;
  for (int peer = 0; peer < size(); ++peer)
    cores.push_back(control_->slot(peer).cores);
  setup_.policy = wait_policy(cores);
}

}  // namespace trireme::comm
