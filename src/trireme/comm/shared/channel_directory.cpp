#include "trireme/comm/shared/channel_directory.h"

#include <new>

#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

std::string describe(const ChannelKey& key) {
  return text(
      "the channel from rank ", key.from, " to rank ", key.to, " with tag ", key.tag);
}

bool exchange(ChannelDirectory::Entry& entry, ChannelState from, ChannelState to) {
  return entry.state.compare_exchange_strong(from, to, std::memory_order_acq_rel);
}

}  // namespace

ChannelDirectory::Entry& ChannelDirectory::publish(const ChannelKey& key, uint64_t ring) {
  world_.memory().reclaim();
  std::lock_guard lock(mutex_);
  Entry* entry = find(world_.rank(), key);
  if (entry != nullptr && entry->state.load() != ChannelState::Closed)
    throw InvalidArgument(text(
        "[comm] expected ",
        describe(key),
        " to be opened once, but it is open or holds messages that were not received; use "
        "another tag"));
  if (entry == nullptr)
    entry = &append(key);
  entry->ring.store(ring, std::memory_order_relaxed);
  entry->state.store(ChannelState::Open, std::memory_order_release);
  changes(world_.rank()).add_one();
  return *entry;
}

bool ChannelDirectory::close(Entry& entry) {
  return exchange(entry, ChannelState::Open, ChannelState::Closed) ||
         exchange(entry, ChannelState::Abandoned, ChannelState::Closed);
}

bool ChannelDirectory::connect(Entry& entry) {
  if (exchange(entry, ChannelState::Open, ChannelState::Connected) ||
      exchange(entry, ChannelState::Abandoned, ChannelState::Connected))
    return true;
  if (entry.state.load(std::memory_order_acquire) == ChannelState::Connected)
    throw InvalidArgument(text(
        "[comm] expected one receiver of ",
        describe(entry.key),
        ", got a second; share the Channel object, or use another tag"));
  return false;
}

void ChannelDirectory::abandon(Entry& entry) {
  entry.state.store(ChannelState::Abandoned, std::memory_order_release);
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
