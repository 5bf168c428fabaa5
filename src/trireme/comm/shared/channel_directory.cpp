#include "trireme/comm/shared/channel_directory.h"

#include <new>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

std::string describe(const ChannelKey& key) {
  return text(
      "the channel from rank ", key.from, " to rank ", key.to, " with tag ", key.tag);
}

/// Changes the state by a function of it, until nobody else came in between.
template <class Next>
void change(ChannelDirectory::Entry& entry, const Next& next) {
  uint32_t now = entry.state.load(std::memory_order_acquire);
  while (
      !entry.state.compare_exchange_weak(now, next(now), std::memory_order_acq_rel)) {
  }
}

}  // namespace

ChannelDirectory::Entry& ChannelDirectory::publish(
    const ChannelKey& key, uint64_t ring) {
  world_.memory().reclaim();
  std::lock_guard lock(mutex_);
  Entry* entry = find(world_.rank(), key);
  if (entry != nullptr && entry->state.load() != 0)
    throw InvalidArgument(text(
        "[comm] expected ",
        describe(key),
        " to be opened once, but an end of it is open, or messages in it were not "
        "received, or a received tensor is alive; use another tag, or end that first"));
  if (entry == nullptr)
    entry = &append(key);
  entry->ring.store(ring, std::memory_order_relaxed);
  entry->state.store(ChannelState::HasRing, std::memory_order_release);
  changes(world_.rank()).add_one();
  return *entry;
}

void ChannelDirectory::leave_as_sender(
    Entry& entry, const std::function<bool()>& drained) {
  change(entry, [&drained](uint32_t now) {
    // With a receiver there, it is for the receiver to say so when it leaves.
    const bool over = (now & ChannelState::HasReceiver) == 0 && drained();
    return now | ChannelState::SenderGone | (over ? ChannelState::Drained : 0U);
  });
}

bool ChannelDirectory::remove_ring(Entry& entry) {
  uint32_t now = entry.state.load(std::memory_order_acquire);
  return (now & ChannelState::HasReceiver) == 0 &&
         entry.state.compare_exchange_strong(now, 0, std::memory_order_acq_rel);
}

bool ChannelDirectory::connect(Entry& entry) {
  uint32_t now = entry.state.load(std::memory_order_acquire);
  for (;;) {
    if ((now & ChannelState::HasRing) == 0 || (now & ChannelState::Drained) != 0)
      return false;
    if ((now & ChannelState::HasReceiver) != 0)
      throw InvalidArgument(text(
          "[comm] expected one receiver of ",
          describe(entry.key),
          ", got a second; share the Channel object, or use another tag"));
    if (entry.state.compare_exchange_weak(
            now, now | ChannelState::HasReceiver, std::memory_order_acq_rel))
      return true;
  }
}

void ChannelDirectory::leave_as_receiver(
    Entry& entry, const std::function<bool()>& drained) {
  change(entry, [&drained](uint32_t now) {
    const bool over = (now & ChannelState::SenderGone) != 0 && drained();
    return (now & ~uint32_t{ChannelState::HasReceiver}) |
           (over ? ChannelState::Drained : 0U);
  });
}

ChannelDirectory::Entry* ChannelDirectory::find(int from, const ChannelKey& key) const {
  const RankSlot& slot = world_.control().slot(from);
  uint32_t left = slot.channel_count.load(std::memory_order_acquire);
  uint64_t page_offset = slot.channel_page.load(std::memory_order_acquire);
  while (left > 0) {
    auto* page = world_.memory().as<ChannelPage>(page_offset);
    for (uint32_t i = 0; i < ChannelPage::kEntries && left > 0; ++i, --left)
      if (page->entries[i].key == key)
        return &page->entries[i];
    page_offset = page->next.load(std::memory_order_acquire);
  }
  return nullptr;
}

ChannelDirectory::Entry& ChannelDirectory::append(const ChannelKey& key) {
  RankSlot& slot = world_.control().slot(world_.rank());
  const uint32_t index = count_ % ChannelPage::kEntries;
  if (index == 0) {
    const uint64_t offset = world_.memory().allocate(sizeof(ChannelPage));
    auto* page = new (world_.memory().at(offset)) ChannelPage;
    auto& link = last_ == nullptr ? slot.channel_page : last_->next;
    link.store(offset, std::memory_order_release);
    last_ = page;
  }
  last_->entries[index].key = key;
  slot.channel_count.store(++count_, std::memory_order_release);
  return last_->entries[index];
}

}  // namespace trireme::comm
