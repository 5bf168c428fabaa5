#include "trireme/comm/shared/ring.h"

#include <bit>
#include <new>

#include "trireme/comm/channel_text.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

FlightRecorder::Call flight_call(
    const ChannelEnd& end, FlightKind kind, uint64_t bytes, uint32_t sequence) {
  return {
      .kind = kind,
      .what = bytes,
      .group = end.key.group,
      .sequence = sequence,
      .peer = end.peer_name(),
      .tag = end.key.tag};
}

}  // namespace

// ---- sender
// --------------------------------------------------------------------------------

RingSender::RingSender(ChannelEnd end, const ChannelOptions& options)
    : end_(std::move(end)),
      peers_{end_.peer},
      options_(options),
      sent_(end_.first_message) {
  check_capacity(options);
  const uint32_t slots =
      std::bit_ceil(static_cast<uint32_t>(options.capacity_messages));
  SharedMemory& memory = world().memory();
  ring_offset_ = memory.allocate(RingControl::bytes(slots));
  ring_ = new (memory.at(ring_offset_)) RingControl;
  ring_->slots = slots;
  for (Flag* count : {&ring_->sent, &ring_->taken, &ring_->freed})
    count->value.store(sent_, std::memory_order_relaxed);
  for (uint32_t i = 0; i < slots; ++i)
    new (&ring_->slot(i)) RingControl::Slot;
  try {
    entry_ = &end_.directory->publish(end_.key, ring_offset_);
    world().control().ring(end_.peer);
  } catch (...) {
    memory.release(ring_offset_);
    throw;
  }
}

RingSender::~RingSender() = default;

void RingSender::retire() {
  ChannelDirectory::leave_as_sender(
      *entry_, [this] { return ring_->taken.reached(sent_); });
  world().control().ring(end_.peer);
  world().memory().retire([memory = &world().memory(),
                           control = &world().control(),
                           ring = ring_,
                           offset = ring_offset_,
                           entry = entry_,
                           sent = sent_,
                           release = release_all(),
                           removed = false]() mutable {
    const uint32_t freed = ring->freed.value.load(std::memory_order_acquire);
    // In a world that was renewed, nobody will receive the rest.
    if (!removed && (freed == sent || control->renewed()))
      removed = ChannelDirectory::remove_ring(*entry);
    // From here on nobody can take a message; but tensors of those that were taken may
    // live.
    if (!removed || !ring->all_given_back())
      return false;
    release();
    memory->release(offset);
    return true;
  });
}

bool RingSender::slot_free(uint32_t taken) const {
  return sent_ - taken < static_cast<uint32_t>(options_.capacity_messages);
}

bool RingSender::try_put(
    const Message& message, const MessageLayout& layout, uint32_t taken) {
  uint64_t payload = 0;
  if (!slot_free(taken) || !store(message, layout, payload))
    return false;
  ring_->slot(sent_) = {payload, layout.total_bytes};
  ring_->sent.post(++sent_);
  world().control().ring(end_.peer);
  return true;
}

bool RingSender::try_send(const Message& message) {
  world().check();
  const MessageLayout layout = measure(message);
  const PortGate::Turn turn = gate_.try_enter();
  if (!turn)
    return false;
  const auto put = [&] {
    return try_put(message, layout, ring_->taken.value.load(std::memory_order_acquire));
  };
  // Without progress, ask whether there can be any; then once more, for a peer may take
  // the last message and leave.
  if (!put()) {
    const std::exception_ptr trouble = world().trouble(peers_);
    if (!trouble)
      return false;
    if (!put())
      std::rethrow_exception(trouble);
  }
  world()
      .recorder()
      .begin(flight_call(end_, FlightKind::Send, layout.total_bytes, sent_))
      .done();
  return true;
}

void RingSender::send(const Message& message, const Deadline& deadline) {
  world().check();
  const MessageLayout layout = measure(message);
  const ChannelPeer to{.rank = end_.peer_name(), .tag = end_.key.tag};
  const PortGate::Turn turn = gate_.enter(deadline);
  if (!turn)
    time_out(turn_missing_text(to, deadline));
  auto record = world().recorder().begin(
      flight_call(end_, FlightKind::Send, layout.total_bytes, sent_ + 1));
  const WorldGuard guard(world(), peers_);
  for (;;) {
    // Both before we try, and what we wait for follows from them: a message that is
    // taken or given back while we try must wake us.
    const uint32_t freed = ring_->freed.value.load(std::memory_order_acquire);
    const uint32_t taken = ring_->taken.value.load(std::memory_order_acquire);
    if (try_put(message, layout, taken))
      return record.done();
    // Full: of messages, or of bytes that the receiver still holds.
    const bool no_slot = !slot_free(taken);
    Flag& flag = no_slot ? ring_->taken : ring_->freed;
    const uint32_t target = (no_slot ? taken : freed) + 1;
    turn.set_waiting(true);
    if (!wait_until(flag, target, world().policy(), guard, deadline))
      time_out(channel_full_text(
          to,
          layout.total_bytes,
          {.messages = sent_ - taken, .bytes = bytes_out(), .options = options_},
          deadline));
    turn.set_waiting(false);
  }
}

void RingSender::time_out(const std::string& what) const {
  world().note_timeout(what);
  throw TimeoutError(what);
}

// ---- receiver
// ------------------------------------------------------------------------------

RingReceiver::RingReceiver(ChannelEnd end) : end_(std::move(end)), peers_{end_.peer} {}

RingReceiver::~RingReceiver() {
  if (ring_ != nullptr)
    ChannelDirectory::leave_as_receiver(
        *entry_, [this] { return !ring_->sent.reached(taken_ + 1); });
}

bool RingReceiver::connect() {
  if (ring_ != nullptr)
    return true;
  if (entry_ == nullptr)
    entry_ = end_.directory->find(end_.peer, end_.key);
  if (entry_ == nullptr || !ChannelDirectory::connect(*entry_))
    return false;
  ring_ =
      world().memory().as<RingControl>(entry_->ring.load(std::memory_order_acquire));
  taken_ = ring_->taken.value.load(std::memory_order_relaxed);
  return true;
}

FlightRecorder::Record RingReceiver::begin_record() const {
  return world().recorder().begin(
      flight_call(end_, FlightKind::Receive, 0, taken_ + 1));
}

Message RingReceiver::take(FlightRecorder::Record& record) {
  const RingControl::Slot slot = ring_->slot(taken_);
  record.set_what(slot.bytes);
  try {
    Message message = load(slot);
    ring_->taken.post(++taken_);
    world().control().ring(end_.peer);
    return message;
  } catch (...) {
    ring_->taken.post(++taken_);  // its memory went back: it cannot be loaded again
    world().control().ring(end_.peer);
    throw;
  }
}

std::optional<Message> RingReceiver::try_receive() {
  world().check();
  const PortGate::Turn turn = gate_.try_enter();
  if (!turn)
    return std::nullopt;
  if (!is_there()) {
    const std::exception_ptr trouble = world().trouble(peers_);
    if (!trouble)
      return std::nullopt;
    if (!is_there())  // a peer may send and leave
      std::rethrow_exception(trouble);
  }
  auto record = begin_record();
  Message message = take(record);
  record.done();
  return message;
}

bool RingReceiver::ready() {
  world().check();
  const PortGate::Turn turn = gate_.try_enter();
  if (!turn)
    return false;
  if (is_there())
    return true;
  const std::exception_ptr trouble = world().trouble(peers_);
  if (trouble && !is_there() && !sender_closed())  // a peer may close and leave
    std::rethrow_exception(trouble);
  return is_there();
}

bool RingReceiver::closed() {
  const PortGate::Turn turn = gate_.try_enter();
  return turn && sender_closed();
}

// Asked in this order: a sender sends, and then closes its end.
bool RingReceiver::sender_closed() {
  if (!connect())
    return false;
  const uint32_t state = entry_->state.load(std::memory_order_seq_cst);
  return (state & ChannelState::SenderGone) != 0 && !is_there();
}

Message RingReceiver::receive(const Deadline& deadline) {
  world().check();
  const PortGate::Turn turn = gate_.enter(deadline);
  if (!turn)
    time_out(deadline, false);
  auto record =
      begin_record();  // from the start, so that it shows what a rank waits for
  const WorldGuard guard(world(), peers_);
  Flag& changes = end_.directory->changes(end_.peer);
  for (;;) {
    const uint32_t seen = changes.value.load(std::memory_order_acquire);
    if (connect())
      break;
    turn.set_waiting(true);
    if (!wait_until(changes, seen + 1, world().policy(), guard, deadline))
      time_out(deadline, true);
    turn.set_waiting(false);
  }
  if (!ring_->sent.reached(taken_ + 1)) {
    turn.set_waiting(true);
    if (!wait_until(ring_->sent, taken_ + 1, world().policy(), guard, deadline))
      time_out(deadline, true);
    turn.set_waiting(false);
  }
  Message message = take(record);
  record.done();
  return message;
}

void RingReceiver::time_out(const Deadline& deadline, bool inside) const {
  const ChannelPeer from{.rank = end_.peer_name(), .tag = end_.key.tag};
  const std::string what =
      inside ? message_missing_text(
                   from,
                   taken_ + 1,
                   ring_ == nullptr ? "that rank has not opened the channel"
                                    : "it did not come",
                   deadline)
             : turn_missing_text(from, deadline);
  world().note_timeout(what);
  throw TimeoutError(what);
}

}  // namespace trireme::comm
