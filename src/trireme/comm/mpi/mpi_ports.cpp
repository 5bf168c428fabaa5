#include "trireme/comm/mpi/mpi_ports.h"

#include <cstring>

#include "trireme/comm/buffer_tensors.h"
#include "trireme/comm/mpi/mpi_wire.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

/// Which end of which channel of which group.
struct MpiChannelEnd {
  std::shared_ptr<MpiWire> wire;
  /// The rank at the other end, counted in the group.
  int peer = 0;
  int tag = 0;

  MpiWorld& world() const { return wire->world(); }
  ChannelPeer other() const {
    return {.rank = wire->members()[static_cast<size_t>(peer)], .tag = tag};
  }
  FlightRecorder::Record record(
      FlightKind kind, uint64_t bytes, uint64_t sequence) const {
    return world().recorder().begin(
        {.kind = kind,
         .what = bytes,
         .group = wire->id(),
         .sequence = static_cast<uint32_t>(sequence),
         .peer = other().rank,
         .tag = tag});
  }
};

class MpiSender : public SendPort {
 public:
  MpiSender(
      MpiChannelEnd end,
      std::shared_ptr<MpiSendLane> lane,
      const ChannelOptions& options)
      : end_(std::move(end)), lane_(std::move(lane)), options_(options) {}
  ~MpiSender() override { lane_->open.store(false); }

  void send(const Message& message, const Deadline& deadline) override {
    const MessageLayout layout = measure(message);
    const PortGate::Turn turn = lane_->gate.enter(deadline);
    if (!turn)
      end_.world().time_out_channel(turn_missing_text(end_.other(), deadline));
    auto record =
        end_.record(FlightKind::Send, layout.total_bytes, lane_->sent.messages + 1);
    const auto room = [&] { return has_room(layout.total_bytes); };
    if (!room()) {
      turn.set_waiting(true);
      if (!poll_until(room, end_.world().policy(), deadline))
        end_.world().time_out_channel(
            channel_full_text(end_.other(), layout.total_bytes, fill(), deadline));
      turn.set_waiting(false);
    }
    post(message, layout);
    record.done();
  }

  bool try_send(const Message& message) override {
    const MessageLayout layout = measure(message);
    const PortGate::Turn turn = lane_->gate.try_enter();
    if (!turn || !has_room(layout.total_bytes))
      return false;
    auto record =
        end_.record(FlightKind::Send, layout.total_bytes, lane_->sent.messages + 1);
    post(message, layout);
    record.done();
    return true;
  }

 private:
  ChannelFill fill() const {
    return {
        .messages = lane_->sent.messages - lane_->taken.messages,
        .bytes = lane_->sent.bytes - lane_->taken.bytes,
        .options = options_};
  }
  bool has_room(size_t bytes) {
    // Half full is soon enough to look for credit, and keeps what waits for us short.
    const ChannelFill now = fill();
    if (now.messages * 2 >= static_cast<uint64_t>(options_.capacity_messages) ||
        !now.has_room(bytes))
      collect_credit();
    return fill().has_room(bytes);
  }

  void collect_credit() {
    MPI_Comm comm = end_.wire->comm();
    const int tag = credit_tag(end_.tag);
    // MPI takes in what has come in one look, and finds it in the next.
    for (int misses = 0; misses < 2;) {
      int there = 0;
      MPI_Message message = MPI_MESSAGE_NULL;
      check_mpi(
          MPI_Improbe(end_.peer, tag, comm, &there, &message, MPI_STATUS_IGNORE),
          "MPI_Improbe");
      if (there == 0) {
        ++misses;
        continue;
      }
      // It has come, and is small: this does not wait.
      check_mpi(
          MPI_Mrecv(
              &lane_->taken, sizeof(WireCredit), MPI_BYTE, &message, MPI_STATUS_IGNORE),
          "MPI_Mrecv");
    }
  }

  void post(const Message& message, const MessageLayout& layout) {
    MpiRuntime& runtime = end_.world().runtime();
    Buffer buffer = runtime.pool().take(layout.total_bytes);
    encode(message, layout, buffer.data());
    runtime.progress().send(
        {.to = end_.peer, .tag = message_tag(end_.tag), .comm = end_.wire->comm()},
        std::move(buffer),
        message_blocks(layout.total_bytes),
        runtime.block());
    ++lane_->sent.messages;
    lane_->sent.bytes += layout.total_bytes;
  }

  MpiChannelEnd end_;
  std::shared_ptr<MpiSendLane> lane_;
  ChannelOptions options_;
};

class MpiReceiver : public ReceivePort {
 public:
  MpiReceiver(MpiChannelEnd end, std::shared_ptr<MpiReceiveLane> lane)
      : end_(std::move(end)), lane_(std::move(lane)) {}
  ~MpiReceiver() override { lane_->open.store(false); }

  Message receive(const Deadline& deadline) override {
    const PortGate::Turn turn = lane_->gate.enter(deadline);
    if (!turn)
      end_.world().time_out_channel(turn_missing_text(end_.other(), deadline));
    // From the start, so that it shows what a rank waits for.
    auto record = end_.record(FlightKind::Receive, 0, lane_->taken.messages + 1);
    if (!has_come()) {
      turn.set_waiting(true);
      if (!poll_until([this] { return has_come(); }, end_.world().policy(), deadline))
        end_.world().time_out_channel(message_missing_text(
            end_.other(), lane_->taken.messages + 1, "it did not come", deadline));
      turn.set_waiting(false);
    }
    return take(record);
  }

  bool ready() override {
    const PortGate::Turn turn = lane_->gate.try_enter();
    return turn && has_come();
  }

  std::optional<Message> try_receive() override {
    const PortGate::Turn turn = lane_->gate.try_enter();
    if (!turn || !has_come())
      return std::nullopt;
    auto record = end_.record(FlightKind::Receive, 0, lane_->taken.messages + 1);
    return take(record);
  }

 private:
  // A message that has begun to come in stays with the channel if the caller gives up.
  bool has_come() {
    if (lane_->arrived)
      return true;
    if (lane_->request == MPI_REQUEST_NULL && !start_receiving())
      return false;
    int done = 0;
    check_mpi(MPI_Test(&lane_->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    lane_->arrived = done != 0;
    return lane_->arrived;
  }

  bool start_receiving() {
    MpiRuntime& runtime = end_.world().runtime();
    int there = 0, blocks = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check_mpi(
        MPI_Improbe(
            end_.peer,
            message_tag(end_.tag),
            end_.wire->comm(),
            &there,
            &message,
            &status),
        "MPI_Improbe");
    if (there == 0)
      return false;
    check_mpi(MPI_Get_count(&status, runtime.block(), &blocks), "MPI_Get_count");
    lane_->progress = &runtime.progress();
    lane_->incoming =
        runtime.pool().take(static_cast<size_t>(blocks) * kMessageAlignment);
    check_mpi(
        MPI_Imrecv(
            lane_->incoming.data(), blocks, runtime.block(), &message, &lane_->request),
        "MPI_Imrecv");
    return true;
  }

  Message take(FlightRecorder::Record& record) {
    Buffer buffer = std::move(lane_->incoming);
    lane_->arrived = false;
    const std::span<std::byte> bytes = buffer.bytes();
    record.set_what(bytes.size());
    ++lane_->taken.messages;
    lane_->taken.bytes += bytes.size();
    give_credit();
    BufferTensors maker(std::move(buffer));
    Message message = decode(bytes, maker);
    record.done();
    return message;
  }

  void give_credit() {
    MpiRuntime& runtime = end_.world().runtime();
    Buffer credit = runtime.pool().take(sizeof(WireCredit));
    std::memcpy(credit.data(), &lane_->taken, sizeof(WireCredit));
    runtime.progress().send(
        {.to = end_.peer, .tag = credit_tag(end_.tag), .comm = end_.wire->comm()},
        std::move(credit),
        sizeof(WireCredit),
        MPI_BYTE);
  }

  MpiChannelEnd end_;
  std::shared_ptr<MpiReceiveLane> lane_;
};

}  // namespace

MpiReceiveLane::~MpiReceiveLane() {
  if (request != MPI_REQUEST_NULL)
    progress->adopt(request, std::move(incoming));
}

namespace {

void begin_channel(MpiWire& wire, int tag) {
  const int highest = highest_channel(wire.world().runtime().highest_tag());
  if (tag < 0 || tag > highest)
    throw InvalidArgument(text(
        "[comm] expected a tag from 0 to ",
        highest,
        " on the backend \"mpi\", got ",
        tag,
        "; take a smaller one"));
  wire.has_channels();
}

}  // namespace

std::unique_ptr<SendPort> MpiLanes::open_send(
    std::shared_ptr<MpiWire> wire, int to, int tag, const ChannelOptions& options) {
  check_capacity(options);
  begin_channel(*wire, tag);
  auto lane = sends_.open(to, tag);
  return std::make_unique<MpiSender>(
      MpiChannelEnd{.wire = std::move(wire), .peer = to, .tag = tag},
      std::move(lane),
      options);
}

std::unique_ptr<ReceivePort> MpiLanes::open_receive(
    std::shared_ptr<MpiWire> wire, int from, int tag) {
  begin_channel(*wire, tag);
  auto lane = receives_.open(from, tag);
  return std::make_unique<MpiReceiver>(
      MpiChannelEnd{.wire = std::move(wire), .peer = from, .tag = tag},
      std::move(lane));
}

}  // namespace trireme::comm
