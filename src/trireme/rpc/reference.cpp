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
  std::function<void()> wake;
  {
    const std::lock_guard lock(mutex_);
    if (closed_)
      return;
    if (entries_.empty())
      wake = wake_;
    entries_.push_back(entry);
  }
  if (wake)
    wake();
}

std::vector<Releases::Entry> Releases::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(entries_, {});
}

void Releases::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  wake_ = nullptr;
  entries_.clear();
}

}  // namespace trireme::rpc
