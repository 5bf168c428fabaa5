#include "trireme/comm/shared/block_ports.h"

#include <algorithm>
#include <new>

#include <ATen/Functions.h>

namespace trireme::comm {
namespace {

/// Gives a block back to its sender when the last tensor over it dies.
class BlockLease {
 public:
  BlockLease(const World& world, int sender, RingControl& ring, uint64_t block)
      : memory_(world.setup().memory),
        control_(world.control()),
        sender_(sender),
        ring_(ring),
        block_(block) {}
  ~BlockLease() {
    memory_->as<BlockHeader>(block_)->in_use.store(0, std::memory_order_release);
    ring_.freed.add_one();  // the sender may free the ring from here on
    control_.ring(sender_);
  }
  BlockLease(const BlockLease&) = delete;
  BlockLease& operator=(const BlockLease&) = delete;

 private:
  std::shared_ptr<SharedMemory> memory_;
  WorldControl& control_;  // stays as long as the memory
  int sender_;
  RingControl& ring_;
  uint64_t block_;
};

class LeasedTensors : public TensorMaker {
 public:
  explicit LeasedTensors(std::shared_ptr<BlockLease> lease)
      : lease_(std::move(lease)) {}
  at::Tensor make(std::byte* data, const TensorForm& form) override {
    return at::from_blob(
        data,
        form.sizes,
        form.strides,
        [lease = lease_](void*) {},
        at::TensorOptions().dtype(form.dtype));
  }

 private:
  std::shared_ptr<BlockLease> lease_;
};

}  // namespace

void BlockSender::collect_freed() {
  const uint32_t freed = ring().freed.value.load(std::memory_order_acquire);
  if (freed == freed_seen_)
    return;
  freed_seen_ = freed;
  std::erase_if(lent_, [this](const Block& block) {
    auto* header = world().memory().as<BlockHeader>(block.offset);
    if (header->in_use.load(std::memory_order_acquire) != 0)
      return false;
    lent_bytes_ -= block.capacity;
    returned_.push_back(block);
    return true;
  });
}

// A block that holds `bytes`: one that came back, or a new one within the credit.
bool BlockSender::take_block(size_t bytes, Block& out) {
  SharedMemory& memory = world().memory();
  const size_t need = sizeof(BlockHeader) + bytes;
  collect_freed();
  const auto fit =
      std::find_if(returned_.begin(), returned_.end(), [need](const Block& block) {
        return block.capacity >= need && block.capacity <= 2 * need + 4096;
      });
  if (fit != returned_.end()) {
    out = *fit;
    returned_.erase(fit);
    return true;
  }
  if (!lent_.empty() && lent_bytes_ + need > options().capacity_bytes)
    return false;
  // Shapes have changed: what does not fit any more goes back for others to use.
  for (const Block& block : returned_)
    memory.release(block.offset);
  returned_.clear();
  out = {memory.allocate(need), need};
  new (memory.at(out.offset)) BlockHeader;
  return true;
}

bool BlockSender::store(
    const Message& message, const MessageLayout& layout, uint64_t& payload) {
  Block block;
  if (!take_block(layout.total_bytes, block))
    return false;
  std::byte* place = world().memory().at(block.offset);
  try {
    encode(message, layout, place + sizeof(BlockHeader));
  } catch (...) {
    returned_.push_back(block);
    throw;
  }
  reinterpret_cast<BlockHeader*>(place)->in_use.store(1, std::memory_order_relaxed);
  lent_.push_back(block);
  lent_bytes_ += block.capacity;
  payload = block.offset;
  return true;
}

std::function<void()> BlockSender::release_all() {
  std::vector<uint64_t> blocks;
  for (const Block& block : lent_)
    blocks.push_back(block.offset);
  for (const Block& block : returned_)
    blocks.push_back(block.offset);
  return [memory = &world().memory(), blocks = std::move(blocks)] {
    for (const uint64_t block : blocks)
      memory->release(block);
  };
}

Message BlockReceiver::load(const RingControl::Slot& slot) {
  std::byte* bytes = world().memory().at(slot.payload) + sizeof(BlockHeader);
  LeasedTensors maker(
      std::make_shared<BlockLease>(world(), sender(), ring(), slot.payload));
  return decode({bytes, slot.bytes}, maker);
}

}  // namespace trireme::comm
