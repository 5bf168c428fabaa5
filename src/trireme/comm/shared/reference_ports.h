// Channel ends between threads: tensors are handed over by reference, without a copy.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "trireme/comm/shared/ring.h"

namespace trireme::comm {

/// The receiver gets the same storage and version counter (a detached alias), so that a
/// write by either side is seen by the other, and by autograd.
class ReferenceSender : public RingSender {
 public:
  ReferenceSender(ChannelEnd end, const ChannelOptions& options);
  ~ReferenceSender() override { retire(); }

 protected:
  bool store(
      const Message& message, const MessageLayout& layout, uint64_t& payload) override;
  size_t bytes_out() const override { return bytes_out_; }
  std::function<void()> release_all() override;

 private:
  // One message a slot of the ring; outlives this object until all are received.
  std::shared_ptr<std::vector<Message>> messages_;
  size_t next_ = 0;
  std::deque<size_t> out_;  // sizes of messages that were not received yet
  size_t bytes_out_ = 0;
  uint32_t freed_seen_ = ring().freed.value.load(std::memory_order_relaxed);
};

/// Moves messages out of the sender's slots.
class ReferenceReceiver : public RingReceiver {
 public:
  using RingReceiver::RingReceiver;

 protected:
  Message load(const RingControl::Slot& slot) override;
};

}  // namespace trireme::comm
