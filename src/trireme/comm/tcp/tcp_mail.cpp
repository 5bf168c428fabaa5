#include "trireme/comm/tcp/tcp_mail.h"

#include <algorithm>
#include <cstring>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

// What comes may be shorter than what is expected only where both go at once.
void check_size(const TcpTransfer& transfer, size_t bytes) {
  if (bytes == transfer.bytes ||
      (bytes < transfer.bytes && transfer.bytes <= kEagerBytes))
    return;
  throw InvalidArgument(text(
      "[comm] expected ",
      transfer.bytes,
      " bytes from rank ",
      transfer.peer,
      ", got ",
      bytes,
      "; run the same program on all ranks"));
}

}  // namespace

bool TcpMail::expect(const TcpTransferPtr& transfer) {
  const std::lock_guard lock(mutex_);
  Lane& lane = groups_[transfer->group].incoming[transfer->peer];
  const auto early = lane.early.find(transfer->number);
  if (early == lane.early.end()) {
    lane.expected[transfer->number] = transfer;
    return false;
  }
  check_size(*transfer, early->second.size());
  std::memcpy(transfer->data, early->second.data(), early->second.size());
  lane.early.erase(early);
  transfer->done = true;
  return true;
}

bool TcpMail::may_send(const TcpTransferPtr& transfer) {
  const std::lock_guard lock(mutex_);
  Lane& lane = groups_[transfer->group].outgoing[transfer->peer];
  if (lane.ready.erase(transfer->number) == 0) {
    lane.stalled[transfer->number] = transfer;
    return false;
  }
  transfer->under_way = true;
  return true;
}

std::vector<int> TcpMail::withdraw(std::span<const TcpTransferPtr> transfers) {
  std::vector<int> touched;
  const std::lock_guard lock(mutex_);
  for (const TcpTransferPtr& transfer : transfers) {
    if (transfer->done)
      continue;
    Group& group = groups_[transfer->group];
    Lane& lane = (transfer->sends ? group.outgoing : group.incoming)[transfer->peer];
    (transfer->sends ? lane.stalled : lane.expected).erase(transfer->number);
    if (transfer->under_way)
      touched.push_back(transfer->peer);
  }
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  return touched;
}

std::span<std::byte> TcpMail::place(
    uint32_t group, int peer, uint64_t number, size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (is_over(group))
    return {};
  Lane& lane = groups_[group].incoming[peer];
  const auto found = lane.expected.find(number);
  if (found == lane.expected.end())
    return {};
  check_size(*found->second, bytes);
  found->second->under_way = true;
  return {found->second->data, bytes};
}

void TcpMail::arrived(uint32_t group, int peer, uint64_t number, Buffer buffer) {
  const std::lock_guard lock(mutex_);
  if (is_over(group))
    return;
  Lane& lane = groups_[group].incoming[peer];
  const auto found = lane.expected.find(number);
  if (found == lane.expected.end()) {
    // With no buffer it was placed, and then withdrawn.
    if (buffer.data() != nullptr)
      lane.early[number] = std::move(buffer);
    return;
  }
  TcpTransfer& transfer = *found->second;
  if (!transfer.under_way && buffer.data() != nullptr) {
    check_size(transfer, buffer.size());
    std::memcpy(transfer.data, buffer.data(), buffer.size());
  }
  transfer.done = true;
  lane.expected.erase(found);
  changed_.notify_all();
}

TcpTransferPtr TcpMail::ready(uint32_t group, int peer, uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (is_over(group))
    return nullptr;
  Lane& lane = groups_[group].outgoing[peer];
  const auto found = lane.stalled.find(number);
  if (found == lane.stalled.end()) {
    lane.ready.insert(number);
    return nullptr;
  }
  TcpTransferPtr transfer = found->second;
  lane.stalled.erase(found);
  transfer->under_way = true;
  return transfer;
}

void TcpMail::sent(const TcpTransferPtr& transfer, bool arrived) {
  const std::lock_guard lock(mutex_);
  (arrived ? transfer->done : transfer->lost) = true;
  changed_.notify_all();
}

// -- groups

void TcpMail::left(uint32_t group, int peer) {
  const std::lock_guard lock(mutex_);
  if (past_.contains(group))
    return;
  Group& its = groups_[group];
  its.left.insert(peer);
  its.talkers.erase(peer);
  settle(group);
  ring_locked();
}

void TcpMail::close_group(uint32_t group, std::span<const int> talkers) {
  const std::lock_guard lock(mutex_);
  Group& its = groups_[group];
  its.closed = true;
  its.incoming.clear();
  its.outgoing.clear();
  for (auto& [end, channel] : its.channels)
    channel.messages.clear();
  for (const int talker : talkers)
    if (!gone_locked(group, talker))
      its.talkers.insert(talker);
  settle(group);
}

size_t TcpMail::groups() {
  const std::lock_guard lock(mutex_);
  return groups_.size();
}

bool TcpMail::is_over(uint32_t group) const {
  const Group* its = find_locked(group);
  return its != nullptr ? its->closed : past_.contains(group);
}

// Forgets a group of which nothing can come any more. Large messages are slower than
// the word that their sender has left.
void TcpMail::settle(uint32_t group) {
  const auto found = groups_.find(group);
  if (found == groups_.end() || !found->second.closed)
    return;
  Group& its = found->second;
  std::erase_if(its.channels, [&](const auto& each) {
    const auto& [end, channel] = each;
    return ranks_left_.contains(end.first) ||
           (!its.talkers.contains(end.first) && !channel.awaits_more());
  });
  if (its.talkers.empty() && its.channels.empty()) {
    groups_.erase(found);
    past_.add(group);
  }
}

// -- channels

const TcpMail::Channel* TcpMail::find_locked(const TcpChannelKey& key) const {
  const auto& [group, peer, tag] = key;
  const Group* its = find_locked(group);
  if (its == nullptr)
    return nullptr;
  const auto found = its->channels.find({peer, tag});
  return found == its->channels.end() ? nullptr : &found->second;
}

TcpMail::Channel& TcpMail::channel(const TcpChannelKey& key) {
  const auto& [group, peer, tag] = key;
  return groups_[group].channels[{peer, tag}];
}

std::optional<Buffer> TcpMail::take(const TcpChannelKey& key) {
  const std::lock_guard lock(mutex_);
  auto& messages = channel(key).messages;
  if (messages.empty())
    return std::nullopt;
  std::optional<Buffer> first(std::move(messages.front()));
  messages.pop_front();
  return first;
}

bool TcpMail::has_message(const TcpChannelKey& key) {
  const std::lock_guard lock(mutex_);
  return has_message_locked(key);
}

void TcpMail::deliver(const TcpChannelKey& key, Buffer message) {
  const std::lock_guard lock(mutex_);
  const uint32_t group = std::get<0>(key);
  if (past_.contains(group))
    return;
  Channel& its = channel(key);
  ++its.arrived;
  if (is_over(group))
    return settle(group);
  its.messages.push_back(std::move(message));
  ring_locked();
}

WireCredit TcpMail::credit(const TcpChannelKey& key) {
  const std::lock_guard lock(mutex_);
  return credit_locked(key);
}

void TcpMail::set_credit(const TcpChannelKey& key, const WireCredit& credit) {
  const std::lock_guard lock(mutex_);
  if (is_over(std::get<0>(key)))
    return;
  channel(key).credit = credit;
  ring_locked();
}

void TcpMail::close_channel(const TcpChannelKey& key, uint64_t messages) {
  const std::lock_guard lock(mutex_);
  if (past_.contains(std::get<0>(key)))
    return;
  Channel& its = channel(key);
  its.closed_after = messages;
  ++its.closings;
  settle(std::get<0>(key));
  ring_locked();
}

bool TcpMail::is_closed(const TcpChannelKey& key, uint64_t taken, uint64_t openings) {
  const std::lock_guard lock(mutex_);
  const Channel* its = find_locked(key);
  return its != nullptr && its->closed_after == taken && its->closings >= openings;
}

void TcpMail::await_ring(uint32_t seen, std::chrono::milliseconds limit) {
  wait(limit, [&] { return rings_ != seen; });
  check();
}

bool TcpMail::fail(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (failure_)
    return false;
  failure_ = failure;
  ring_locked();
  return true;
}

void TcpMail::rank_left(int rank) {
  const std::lock_guard lock(mutex_);
  ranks_left_.insert(rank);
  for (auto next = groups_.begin(); next != groups_.end();) {
    const auto now = next++;  // it may go
    now->second.talkers.erase(rank);
    settle(now->first);
  }
  ring_locked();
}

void TcpMail::check() {
  const std::lock_guard lock(mutex_);
  if (!failure_)
    return;
  if (failure_->timed_out)
    throw TimeoutError(failure_->why);
  throw PeerError(failure_->origin, failure_->why);
}

bool TcpMail::note_absence(const Failure& failure) {
  const std::lock_guard lock(mutex_);
  if (absence_)
    return false;
  absence_ = failure;
  return true;
}

void TcpMail::check_absence() {
  const std::lock_guard lock(mutex_);
  if (absence_)
    throw PeerError(absence_->origin, absence_->why);
}

void TcpMail::telling(int rank) {
  const std::lock_guard lock(mutex_);
  telling_.insert(rank);
}

void TcpMail::told(int rank) {
  const std::lock_guard lock(mutex_);
  telling_.extract(rank);
  changed_.notify_all();
}

void TcpMail::told_by(int rank) {
  const std::lock_guard lock(mutex_);
  told_by_.insert(rank);
  changed_.notify_all();
}

void TcpMail::await_told(std::span<const int> ranks, std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  const auto wait = [&](std::chrono::milliseconds time, const std::set<int>& but) {
    changed_.wait_for(lock, time, [&] {
      return std::none_of(ranks.begin(), ranks.end(), [&](int rank) {
        return telling_.contains(rank) && !but.contains(rank);
      });
    });
  };
  wait(limit, told_by_);
  // An acknowledgement comes within 20 ms.
  wait(std::min(limit, std::chrono::milliseconds(50)), {});
}

}  // namespace trireme::comm
