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
  Lane& lane = incoming_[{transfer->group, transfer->peer}];
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
  Lane& lane = outgoing_[{transfer->group, transfer->peer}];
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
    auto& lanes = transfer->sends ? outgoing_ : incoming_;
    Lane& lane = lanes[{transfer->group, transfer->peer}];
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
  Lane& lane = incoming_[{group, peer}];
  const auto found = lane.expected.find(number);
  if (found == lane.expected.end())
    return {};
  check_size(*found->second, bytes);
  found->second->under_way = true;
  return {found->second->data, bytes};
}

void TcpMail::arrived(uint32_t group, int peer, uint64_t number, Buffer buffer) {
  const std::lock_guard lock(mutex_);
  Lane& lane = incoming_[{group, peer}];
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
  Lane& lane = outgoing_[{group, peer}];
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

void TcpMail::left(uint32_t group, int peer) {
  const std::lock_guard lock(mutex_);
  left_.emplace(group, peer);
  ring();
}

std::optional<Buffer> TcpMail::take(const TcpChannelKey& key) {
  const std::lock_guard lock(mutex_);
  auto& messages = channels_[key].messages;
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
  channels_[key].messages.push_back(std::move(message));
  ring();
}

TcpCredit TcpMail::credit(const TcpChannelKey& key) {
  const std::lock_guard lock(mutex_);
  return channels_[key].credit;
}

void TcpMail::set_credit(const TcpChannelKey& key, const TcpCredit& credit) {
  const std::lock_guard lock(mutex_);
  channels_[key].credit = credit;
  ring();
}

void TcpMail::close_channel(const TcpChannelKey& key, uint64_t messages) {
  const std::lock_guard lock(mutex_);
  channels_[key].closed_after = messages;
  ring();
}

bool TcpMail::is_closed(const TcpChannelKey& key, uint64_t taken) {
  const std::lock_guard lock(mutex_);
  return channels_[key].closed_after == taken;
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
  ring();
  return true;
}

void TcpMail::rank_left(int rank) {
  const std::lock_guard lock(mutex_);
  ranks_left_.insert(rank);
  ring();
}

bool TcpMail::has_left(uint32_t group, int rank) {
  const std::lock_guard lock(mutex_);
  return gone_locked(group, rank);
}

std::optional<Failure> TcpMail::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void TcpMail::check() {
  const std::lock_guard lock(mutex_);
  if (!failure_)
    return;
  if (failure_->timed_out)
    throw TimeoutError(failure_->why);
  throw PeerError(failure_->origin, failure_->why);
}

}  // namespace trireme::comm
