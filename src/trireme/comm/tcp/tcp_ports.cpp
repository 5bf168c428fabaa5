#include "trireme/comm/tcp/tcp_ports.h"

#include "trireme/comm/buffer_tensors.h"
#include "trireme/comm/channel_text.h"
#include "trireme/comm/tcp/tcp_wire.h"
#include "trireme/comm/wait_budget.h"
#include "trireme/core/error.h"

namespace trireme::comm {

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
      TcpChannelEnd end, std::shared_ptr<TcpLane> lane, const ChannelOptions& options)
      : end_(std::move(end)), lane_(std::move(lane)), options_(options) {}
  ~TcpSender() override {
    end_.world().send_closed(end_.key(), lane_->account.messages);
    lane_->open.store(false);
  }

  void send(const Message& message, const Deadline& deadline) override {
    const MessageLayout layout = measure(message);
    const PortGate::Turn turn = lane_->gate.enter(deadline);
    if (!turn)
      end_.world().time_out_channel(turn_missing_text(end_.other(), deadline));
    auto record =
        end_.record(FlightKind::Send, layout.total_bytes, lane_->account.messages + 1);
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

  Doorbell* doorbell() override { return &end_.world().bell(); }

  bool try_send(const Message& message) override {
    const MessageLayout layout = measure(message);
    const PortGate::Turn turn = lane_->gate.try_enter();
    end_.check_there(kAll);
    if (!turn || !fits(layout.total_bytes, end_.mail().credit(end_.key())))
      return false;
    auto record =
        end_.record(FlightKind::Send, layout.total_bytes, lane_->account.messages + 1);
    post(message, layout, Deadline::after(kConnect));
    record.done();
    return true;
  }

 private:
  // A first message may have to find its way.
  static constexpr std::chrono::seconds kConnect{30};

  ChannelFill fill(const WireCredit& taken) const {
    return {
        .messages = lane_->account.messages - taken.messages,
        .bytes = lane_->account.bytes - taken.bytes,
        .options = options_};
  }
  bool fits(size_t bytes, const WireCredit& taken) const {
    return fill(taken).has_room(bytes);
  }
  void post(
      const Message& message, const MessageLayout& layout, const Deadline& deadline) {
    Buffer buffer = end_.world().pool().take(layout.total_bytes);
    encode(message, layout, buffer.data());
    end_.world().send_message(end_.key(), std::move(buffer), deadline);
    ++lane_->account.messages;
    lane_->account.bytes += layout.total_bytes;
  }

  TcpChannelEnd end_;
  std::shared_ptr<TcpLane> lane_;
  ChannelOptions options_;
};

class TcpReceiver : public ReceivePort {
 public:
  TcpReceiver(TcpChannelEnd end, std::shared_ptr<TcpLane> lane)
      : end_(std::move(end)), lane_(std::move(lane)) {}
  ~TcpReceiver() override { lane_->open.store(false); }

  Message receive(const Deadline& deadline) override {
    const PortGate::Turn turn = lane_->gate.enter(deadline);
    if (!turn)
      end_.world().time_out_channel(turn_missing_text(end_.other(), deadline));
    // From the start, so that it shows what a rank waits for.
    auto record = end_.record(FlightKind::Receive, 0, lane_->account.messages + 1);
    turn.set_waiting(true);
    const auto here = [&] { return end_.mail().has_message_locked(end_.key()); };
    if (!end_.wait(deadline, lane_->account.messages, here))
      end_.world().time_out_channel(message_missing_text(
          end_.other(), lane_->account.messages + 1, "it did not come", deadline));
    turn.set_waiting(false);
    return take(*end_.mail().take(end_.key()), record);
  }

  bool ready() override { return end_.mail().has_message(end_.key()); }
  bool closed() override {
    return end_.mail().is_closed(end_.key(), lane_->account.messages, lane_->openings);
  }
  Doorbell* doorbell() override { return &end_.world().bell(); }

  std::optional<Message> try_receive() override {
    const PortGate::Turn turn = lane_->gate.try_enter();
    if (!turn)
      return std::nullopt;
    std::optional<Buffer> buffer = end_.mail().take(end_.key());
    if (!buffer) {
      end_.check_there(lane_->account.messages);
      return std::nullopt;
    }
    auto record = end_.record(FlightKind::Receive, 0, lane_->account.messages + 1);
    return take(std::move(*buffer), record);
  }

 private:
  Message take(Buffer buffer, FlightRecorder::Record& record) {
    const std::span<std::byte> bytes = buffer.bytes();
    record.set_what(bytes.size());
    ++lane_->account.messages;
    lane_->account.bytes += bytes.size();
    end_.world().send_credit(end_.key(), lane_->account);
    BufferTensors maker(std::move(buffer));
    Message message = decode(bytes, maker);
    record.done();
    return message;
  }

  TcpChannelEnd end_;
  std::shared_ptr<TcpLane> lane_;
};

}  // namespace

std::unique_ptr<SendPort> TcpLanes::open_send(
    std::shared_ptr<TcpWire> wire, int to, int tag, const ChannelOptions& options) {
  check_capacity(options);
  auto lane = sends_.open(to, tag);
  return std::make_unique<TcpSender>(
      TcpChannelEnd(std::move(wire), to, tag), std::move(lane), options);
}

std::unique_ptr<ReceivePort> TcpLanes::open_receive(
    std::shared_ptr<TcpWire> wire, int from, int tag) {
  auto lane = receives_.open(from, tag);
  ++lane->openings;
  return std::make_unique<TcpReceiver>(
      TcpChannelEnd(std::move(wire), from, tag), std::move(lane));
}

}  // namespace trireme::comm
