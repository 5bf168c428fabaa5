// Channel ends between processes: a message is encoded into a block of the segment, and
// the received tensors are views of it.
#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <vector>

#include "trireme/comm/shared/ring.h"

namespace trireme::comm {

/// Stands before every message's bytes; the receiver clears it when the last tensor
/// dies.
struct alignas(64) BlockHeader {
  std::atomic<uint32_t> in_use{0};
};

/// Encodes messages into blocks of its own region, and uses a block again once it is
/// back.
class BlockSender : public RingSender {
 public:
  using RingSender::RingSender;
  ~BlockSender() override { retire(); }

 protected:
  bool store(
      const Message& message, const MessageLayout& layout, uint64_t& payload) override;
  size_t bytes_out() const override { return lent_bytes_; }
  std::function<void()> release_all() override;

 private:
  struct Block {
    uint64_t offset = 0;
    size_t capacity = 0;
  };
  void collect_freed();
  bool take_block(size_t bytes, Block& out);

  std::deque<Block> lent_;       // with the receiver, oldest first
  std::vector<Block> returned_;  // ready for the next message
  size_t lent_bytes_ = 0;
  uint32_t freed_seen_ = ring().freed.value.load(std::memory_order_relaxed);
};

/// Makes views of blocks, which give them back when they die.
class BlockReceiver : public RingReceiver {
 public:
  using RingReceiver::RingReceiver;

 protected:
  Message load(const RingControl::Slot& slot) override;
};

}  // namespace trireme::comm
