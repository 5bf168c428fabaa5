// The ring behind a channel: one sender, one receiver, no locks between them. What a
// slot names differs: a block in a segment (block_ports.h) or a message by reference
// (reference_ports.h).
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trireme/comm/engine.h"
#include "trireme/comm/port_gate.h"
#include "trireme/comm/shared/channel_directory.h"
#include "trireme/comm/shared/world.h"

namespace trireme::comm {

/// What sender and receiver share of a channel. The sender owns the memory.
struct RingControl {
  /// Messages sent, and messages taken out, counted from the start.
  Flag sent;
  Flag taken;
  /// Messages whose memory the receiver has given back, in whatever order.
  Flag freed;
  /// A power of two, so that the place of a message follows from its number also when
  /// the counters wrap around.
  uint32_t slots = 0;

  /// Whether the receiver has given back all that it took. For when it is gone.
  bool all_given_back() const {
    return freed.value.load(std::memory_order_acquire) ==
           taken.value.load(std::memory_order_acquire);
  }

  struct Slot {
    uint64_t payload = 0;
    uint64_t bytes = 0;
  };
  Slot& slot(uint32_t message) {
    return reinterpret_cast<Slot*>(this + 1)[message & (slots - 1)];
  }
  static size_t bytes(uint32_t slots) {
    return sizeof(RingControl) + slots * sizeof(Slot);
  }
};

/// Which end of which channel of which world.
struct ChannelEnd {
  std::shared_ptr<World> world;
  std::shared_ptr<ChannelDirectory> directory;
  ChannelKey key;
  /// The rank at the other end, counted in `world`.
  int peer = 0;
  int peer_name() const { return world->name_of(peer); }
  /// Where a sender begins to count its messages; for tests of the wrap-around.
  uint32_t first_message = 0;
};

/// The sending end, but for how a message is stored.
class RingSender : public SendPort {
 public:
  RingSender(ChannelEnd end, const ChannelOptions& options);
  ~RingSender() override;
  void send(const Message& message, const Deadline& deadline) override;
  bool try_send(const Message& message) override;
  Doorbell* doorbell() override { return end_.world.get(); }

 protected:
  World& world() const { return *end_.world; }
  RingControl& ring() const { return *ring_; }
  const ChannelOptions& options() const { return options_; }

  /// Stores a message and says where; false if that would exceed the credit in bytes.
  virtual bool store(
      const Message& message, const MessageLayout& layout, uint64_t& payload) = 0;
  /// Bytes that the receiver has not given back, for messages.
  virtual size_t bytes_out() const = 0;
  /// What frees the memory of all messages, once the receiver holds none of them.
  virtual std::function<void()> release_all() = 0;
  /// To be called by the destructor of each derived class: the ring stays until
  /// everything that was sent is received and given back, or, once the world was
  /// renewed, until everything that was received is given back.
  void retire();

 private:
  /// Whether there is a slot for the next message, if so many were taken.
  bool slot_free(uint32_t taken) const;
  bool try_put(const Message& message, const MessageLayout& layout, uint32_t taken);
  [[noreturn]] void time_out(const std::string& what) const;

  ChannelEnd end_;
  std::vector<int> peers_;
  ChannelOptions options_;
  uint64_t ring_offset_;
  RingControl* ring_;
  ChannelDirectory::Entry* entry_;
  PortGate gate_;
  uint32_t sent_;
};

/// The receiving end, but for how a message is loaded.
class RingReceiver : public ReceivePort {
 public:
  explicit RingReceiver(ChannelEnd end);
  ~RingReceiver() override;
  Message receive(const Deadline& deadline) override;
  std::optional<Message> try_receive() override;
  bool ready() override;
  bool closed() override;
  Doorbell* doorbell() override { return end_.world.get(); }

 protected:
  /// The rank that sends, counted in world().
  int sender() const { return end_.peer; }
  World& world() const { return *end_.world; }
  RingControl& ring() const { return *ring_; }
  virtual Message load(const RingControl::Slot& slot) = 0;

 private:
  bool connect();
  bool sender_closed();
  bool is_there() { return connect() && ring_->sent.reached(taken_ + 1); }
  FlightRecorder::Record begin_record() const;
  Message take(FlightRecorder::Record& record);
  /// `inside`: whether it is our turn, so that we may look at the ring.
  [[noreturn]] void time_out(const Deadline& deadline, bool inside) const;

  ChannelEnd end_;
  std::vector<int> peers_;
  ChannelDirectory::Entry* entry_ = nullptr;
  RingControl* ring_ = nullptr;
  PortGate gate_;
  uint32_t taken_ = 0;
};

}  // namespace trireme::comm
