#include "trireme/comm/tcp/tcp_wire.h"

#include <numeric>

#include "trireme/comm/wait_budget.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

// How long a wait sleeps before it looks at its budget.
constexpr auto kLook = std::chrono::milliseconds(50);

}  // namespace

std::shared_ptr<TcpWire> TcpWire::root(
    const TcpSetup& setup, const Deadline& deadline) {
  auto world = TcpWorld::join(setup, deadline);
  WireSeat seat{
      .members = std::vector<int>(static_cast<size_t>(world->size())),
      .rank = world->rank()};
  std::iota(seat.members.begin(), seat.members.end(), 0);
  return std::make_shared<TcpWire>(std::move(seat), std::move(world));
}

TcpWire::TcpWire(WireSeat seat, std::shared_ptr<TcpWorld> world)
    : Wire(std::move(seat)),
      world_(std::move(world)),
      sent_(static_cast<size_t>(size())),
      received_(static_cast<size_t>(size())) {}

TcpWire::~TcpWire() {
  world_->withdraw(transfers_);
  world_->leave(id(), members());
}

TcpTransferPtr TcpWire::make(int peer, std::byte* data, size_t bytes, bool sends) {
  auto transfer = std::make_shared<TcpTransfer>();
  transfer->group = id();
  transfer->peer = world_rank(peer);
  transfer->number = ++(sends ? sent_ : received_)[static_cast<size_t>(peer)];
  transfer->data = data;
  transfer->bytes = bytes;
  transfer->sends = sends;
  return transfer;
}

Wire::Transfer TcpWire::keep(TcpTransferPtr transfer) {
  transfers_.push_back(std::move(transfer));
  return {.first = transfers_.size() - 1, .count = 1};
}

Wire::Transfer TcpWire::send(int peer, const std::byte* data, size_t bytes) {
  if (bytes == 0)
    return {};
  // Nobody writes through it: transfers of both directions have one form.
  const auto transfer = make(peer, const_cast<std::byte*>(data), bytes, true);
  const Transfer kept = keep(transfer);
  world_->start_send(transfer, deadline());
  return kept;
}

Wire::Transfer TcpWire::receive(int peer, std::byte* data, size_t bytes) {
  if (bytes == 0)
    return {};
  const auto transfer = make(peer, data, bytes, false);
  const Transfer kept = keep(transfer);
  world_->start_receive(transfer, deadline());
  return kept;
}

void TcpWire::post(int peer, std::span<const std::byte> bytes) {
  const uint64_t number = ++sent_[static_cast<size_t>(peer)];
  world_->send_copy(id(), world_rank(peer), number, bytes, deadline());
}

void TcpWire::wait(const Transfer& transfer) {
  for (size_t i = transfer.first; i < transfer.first + transfer.count; ++i)
    await(*transfers_[i]);
}

void TcpWire::finish() {
  wait({.first = 0, .count = transfers_.size()});
  transfers_.clear();
}

// Of all that is under way: who waits for the one who left may have left us, too.
const TcpTransfer* TcpWire::unreachable_locked() const {
  for (const TcpTransferPtr& transfer : transfers_)
    if (!transfer->done && world_->mail().hopeless_locked(*transfer))
      return transfer.get();
  return nullptr;
}

void TcpWire::await(const TcpTransfer& transfer) {
  WaitBudget budget(deadline());
  const auto over = [&] { return transfer.done || unreachable_locked() != nullptr; };
  while (!world_->mail().wait(kLook, over))
    if (!budget.charge())
      break;
  // What has come counts, whatever has happened since.
  bool done = false;
  world_->mail().wait(
      std::chrono::milliseconds(0), [&] { return done = transfer.done; });
  if (!done)
    give_up();
}

void TcpWire::give_up() {
  int gone = -1;
  std::vector<int> waited_for;
  world_->mail().wait(std::chrono::milliseconds(0), [&] {
    if (const TcpTransfer* left = unreachable_locked())
      gone = left->peer;
    for (const TcpTransferPtr& each : transfers_)
      for (int peer = 0; peer < size() && !each->sends && !each->done; ++peer)
        if (world_rank(peer) == each->peer)
          waited_for.push_back(peer);
    return true;
  });
  const auto transfers = std::exchange(transfers_, {});
  const auto check = [&] {
    try {
      world_->check();
    } catch (...) {
      world_->withdraw(transfers);
      throw;
    }
  };
  check();
  if (gone < 0) {
    world_->stop(
        {.origin = world_->rank(), .why = late_text(waited_for), .timed_out = true});
    check();
  }
  world_->withdraw(transfers);
  throw PeerError(
      gone,
      text(
          "[comm] expected rank ",
          gone,
          " to take part, but it has left this group; make every rank call the same "
          "operations before it closes the group"));
}

std::shared_ptr<Wire> TcpWire::split(const Part& part) {
  if (part.color < 0)
    return nullptr;
  return std::make_shared<TcpWire>(part.seat, world_);
}

std::unique_ptr<SendPort> TcpWire::open_send(
    int to, int tag, const ChannelOptions& options) {
  return lanes_.open_send(shared_from_this(), to, tag, options);
}

std::unique_ptr<ReceivePort> TcpWire::open_receive(int from, int tag) {
  return lanes_.open_receive(shared_from_this(), from, tag);
}

std::shared_ptr<Wire> TcpWire::renew(const Deadline& deadline) {
  TcpSetup setup = world_->setup();
  ++setup.generation;
  std::shared_ptr<TcpWire> renewed;
  try {
    renewed = root(setup, deadline);
  } catch (const PeerError&) {
    // That of rank 0, perhaps, which has left with the store because of another.
    world_->mail().check_absence();
    throw;
  }
  world_->stop(
      {.origin = world_->rank(),
       .why = "[comm] expected the renewed group, got the old one; use what renew() "
              "gave"});
  return renewed;
}

}  // namespace trireme::comm
