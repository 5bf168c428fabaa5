#include "trireme/comm/tcp/tcp_ports.h"

#include <atomic>

#include "trireme/comm/buffer_tensors.h"
#include "trireme/comm/channel_text.h"
#include "trireme/comm/port_gate.h"
#include "trireme/comm/tcp/tcp_wire.h"
#include "trireme/comm/wait_budget.h"
#include "trireme/core/error.h"

namespace trireme::comm {

struct TcpLanes::SendLane {
  PortGate gate;
  std::atomic<bool> open{false};
  TcpCredit sent;
};

struct TcpLanes::ReceiveLane {
  PortGate gate;
  std::atomic<bool> open{false};
  TcpCredit taken;
};

namespace {

constexpr auto kPortLook = std::chrono::milliseconds(50);

/// Which end of which channel of which group.
class TcpChannelEnd {
 public:
  TcpChannelEnd(std::shared_ptr<TcpWire> its_wire, int its_peer, int its_tag)
      : wire(std::move(its_wire)), peer(its_peer), tag(its_tag) {}
  std::shared_ptr<TcpWire> wire;
  int peer = 0;  // in the group
  int tag = 0;

  TcpWorld& world() const { return wire->world(); }
  TcpMail& mail() const { return world().mail(); }
  int rank() const { return wire->members()[static_cast<size_t>(peer)]; }
  ChannelPeer other() const { return {.rank = rank(), .tag = tag}; }
  TcpChannelKey key() const { return {wire->id(), rank(), tag}; }
  FlightRecorder::Record record(
      FlightKind kind, uint64_t bytes, uint64_t number) const {
    return world().recorder().begin(
        {.kind = kind,
         .what = bytes,
         .group = wire->id(),
         .sequence = static_cast<uint32_t>(number),
         .peer = rank(),
         .tag = tag});
  }
  /// Waits for the condition; false when the time is over. Throws what the world was
  /// stopped by, and PeerError where the other end will never move again: it has left,
  /// and had sent no more than `taken`.
  template <class Condition>
  bool wait(
      const Deadline& deadline, uint64_t taken, const Condition& condition) const {
    WaitBudget budget(deadline);
    bool met = false;
    const auto over = [&] { return (met = condition()) || gone_locked(taken); };
    while (!mail().wait(kPortLook, over))
      if (!budget.charge())
        return false;
    if (!met) {
      world().check();
      refuse_gone();
    }
    return true;
  }
  void check_there(uint64_t taken) const {
    world().check();
    bool gone = false;
    mail().wait(
        std::chrono::milliseconds(0), [&] { return gone = gone_locked(taken); });
    if (gone)
      refuse_gone();
  }

 private:
  bool gone_locked(uint64_t taken) const {
    return mail().gone_locked(wire->id(), rank()) &&
           !mail().more_coming_locked(key(), taken);
  }
  [[noreturn]] void refuse_gone() const {
    throw PeerError(
        rank(),
        text(
            "[comm] expected rank ",
            rank(),
            " at the other end of the channel with tag ",
            tag,
            ", but it has left the group; make every rank finish what the others wait "
            "for before it closes the group"));
  }
};

/// What a sender takes from its peer: nothing.
constexpr uint64_t kAll = ~uint64_t{0};

class TcpSender : public SendPort {
 public:
  TcpSender(
      TcpChannelEnd end,
      std::shared_ptr<TcpLanes::SendLane> lane,
      const ChannelOptions& options)
      : end_(std::move(end)), lane_(std::move(lane)), options_(options) {}
  ~TcpSender() override {
    end_.world().send_closed(end_.key(), lane_->sent.messages);
    lane_->open.store(false);
  }

  void send(const Message& message, const Deadline& deadline) override {
    const MessageLayout layout = measure(message);
    const PortGate::Turn turn = lane_->gate.enter(deadline);
    if (!turn)
      end_.world().time_out_channel(turn_missing_text(end_.other(), deadline));
    auto record =
        end_.record(FlightKind::Send, layout.total_bytes, lane_->sent.messages + 1);
    turn.set_waiting(true);
    const auto room = [&] {
      return fits(layout.total_bytes, end_.mail().credit_locked(end_.key()));
    };
    if (!end_.wait(deadline, kAll, room))
      end_.world().time_out_channel(channel_full_text(
          end_.other(),
          layout.total_bytes,
          fill(end_.mail().credit(end_.key())),
          deadline));
    turn.set_waiting(false);
    post(message, layout, deadline);
    record.done();
  }

  Doorbell* doorbell() override { return &end_.mail(); }

  bool try_send(const Message& message) override {
    const MessageLayout layout = measure(message);
    const PortGate::Turn turn = lane_->gate.try_enter();
    end_.check_there(kAll);
    if (!turn || !fits(layout.total_bytes, end_.mail().credit(end_.key())))
      return false;
    auto record =
        end_.record(FlightKind::Send, layout.total_bytes, lane_->sent.messages + 1);
    post(message, layout, Deadline::after(kConnect));
    record.done();
    return true;
  }

 private:
  // A first message may have to find its way.
  static constexpr std::chrono::seconds kConnect{30};

  ChannelFill fill(const TcpCredit& taken) const {
    return {
        .messages = lane_->sent.messages - taken.messages,
        .bytes = lane_->sent.bytes - taken.bytes,
        .options = options_};
  }
  bool fits(size_t bytes, const TcpCredit& taken) const {
    const ChannelFill now = fill(taken);
    return now.messages == 0 ||
           (now.messages < static_cast<uint64_t>(options_.capacity_messages) &&
            now.bytes + bytes <= options_.capacity_bytes);
  }
  void post(
      const Message& message, const MessageLayout& layout, const Deadline& deadline) {
    Buffer buffer = end_.world().pool().take(layout.total_bytes);
    encode(message, layout, buffer.data());
    end_.world().send_message(end_.key(), std::move(buffer), deadline);
    ++lane_->sent.messages;
    lane_->sent.bytes += layout.total_bytes;
  }

  TcpChannelEnd end_;
  std::shared_ptr<TcpLanes::SendLane> lane_;
  ChannelOptions options_;
};

class TcpReceiver : public ReceivePort {
 public:
  TcpReceiver(TcpChannelEnd end, std::shared_ptr<TcpLanes::ReceiveLane> lane)
      : end_(std::move(end)), lane_(std::move(lane)) {}
  ~TcpReceiver() override { lane_->open.store(false); }

  Message receive(const Deadline& deadline) override {
    const PortGate::Turn turn = lane_->gate.enter(deadline);
    if (!turn)
      end_.world().time_out_channel(turn_missing_text(end_.other(), deadline));
    // From the start, so that it shows what a rank waits for.
    auto record = end_.record(FlightKind::Receive, 0, lane_->taken.messages + 1);
    turn.set_waiting(true);
    const auto here = [&] { return end_.mail().has_message_locked(end_.key()); };
    if (!end_.wait(deadline, lane_->taken.messages, here))
      end_.world().time_out_channel(message_missing_text(
          end_.other(), lane_->taken.messages + 1, "it did not come", deadline));
    turn.set_waiting(false);
    return take(*end_.mail().take(end_.key()), record);
  }

  bool ready() override { return end_.mail().has_message(end_.key()); }
  bool closed() override {
    return end_.mail().is_closed(end_.key(), lane_->taken.messages);
  }
  Doorbell* doorbell() override { return &end_.mail(); }

  std::optional<Message> try_receive() override {
    const PortGate::Turn turn = lane_->gate.try_enter();
    if (!turn)
      return std::nullopt;
    std::optional<Buffer> buffer = end_.mail().take(end_.key());
    if (!buffer) {
      end_.check_there(lane_->taken.messages);
      return std::nullopt;
    }
    auto record = end_.record(FlightKind::Receive, 0, lane_->taken.messages + 1);
    return take(std::move(*buffer), record);
  }

 private:
  Message take(Buffer buffer, FlightRecorder::Record& record) {
    const std::span<std::byte> bytes = buffer.bytes();
    record.set_what(bytes.size());
    ++lane_->taken.messages;
    lane_->taken.bytes += bytes.size();
    end_.world().send_credit(end_.key(), lane_->taken);
    BufferTensors maker(std::move(buffer));
    Message message = decode(bytes, maker);
    record.done();
    return message;
  }

  TcpChannelEnd end_;
  std::shared_ptr<TcpLanes::ReceiveLane> lane_;
};

}  // namespace

template <class Lane>
std::shared_ptr<Lane> TcpLanes::open(LaneMap<Lane>& lanes, int peer, int tag) {
  const std::lock_guard lock(mutex_);
  auto& lane = lanes[{peer, tag}];
  if (!lane)
    lane = std::make_shared<Lane>();
  if (lane->open.exchange(true))
    throw InvalidArgument(text(
        "[comm] expected this end of the channel with rank ",
        peer,
        " and tag ",
        tag,
        " to be opened once, but it is open; share the Channel object, or use another "
        "tag"));
  return lane;
}

std::unique_ptr<SendPort> TcpLanes::open_send(
    std::shared_ptr<TcpWire> wire, int to, int tag, const ChannelOptions& options) {
  check_capacity(options);
  auto lane = open(sends_, to, tag);
  return std::make_unique<TcpSender>(
      TcpChannelEnd(std::move(wire), to, tag), std::move(lane), options);
}

std::unique_ptr<ReceivePort> TcpLanes::open_receive(
    std::shared_ptr<TcpWire> wire, int from, int tag) {
  auto lane = open(receives_, from, tag);
  return std::make_unique<TcpReceiver>(
      TcpChannelEnd(std::move(wire), from, tag), std::move(lane));
}

}  // namespace trireme::comm
