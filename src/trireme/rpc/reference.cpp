#include "trireme/rpc/reference.h"

#include "trireme/core/error.h"

namespace trireme::rpc {

std::string to_string(const ObjectId& id) {
  return text(id.creator, ".", id.number);
}

void Loss::set(std::string why) {
  if (happened())
    return;
  why_ = std::move(why);
  happened_.store(true, std::memory_order_release);
}

void Releases::add(Entry entry) {
  const std::lock_guard lock(mutex_);
  if (closed_)
    return;
  entries_.push_back(entry);
  // Under the lock, so that nobody is woken who has called close().
  if (entries_.size() == 1 && wake_)
    wake_();
}

std::vector<Releases::Entry> Releases::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(entries_, {});
}

std::size_t Releases::waiting() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

void Releases::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  wake_ = nullptr;
  entries_.clear();
}

}  // namespace trireme::rpc
