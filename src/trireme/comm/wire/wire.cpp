#include "trireme/comm/wire/wire.h"

#include <algorithm>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/core/log.h"

namespace trireme::comm {

void WireWorld::on_failure(std::function<void(const Failure&)> tell) {
  std::lock_guard lock(mutex_);
  tell_ = std::move(tell);
  pass_on();
}

void WireWorld::tell_failure(const Failure& failure) const noexcept {
  std::lock_guard lock(mutex_);
  if (!failure_)
    failure_ = failure;
  pass_on();
}

void WireWorld::pass_on() const noexcept {
  if (!failure_ || !tell_)
    return;
  const auto tell = std::exchange(tell_, nullptr);
  try {
    tell(*failure_);
  } catch (const std::exception& error) {
    TRIREME_LOG(warn, "comm") << "could not pass a failure on: " << error.what();
  }
}

void Wire::begin(uint64_t signature, const Deadline& deadline) {
  signature_ = signature;
  deadline_ = &deadline;
}

size_t Wire::entry_bytes() const {
  return sizeof(uint64_t) + world().tuning().payload_bytes;
}

std::string Wire::late_text(std::vector<int> waited_for) const {
  for (int& rank : waited_for)
    rank = members()[static_cast<size_t>(rank)];
  std::sort(waited_for.begin(), waited_for.end());
  waited_for.erase(std::unique(waited_for.begin(), waited_for.end()), waited_for.end());
  std::string what = "it did not end";
  if (entering_ && !waited_for.empty())
    what = rank_list(waited_for) + " did not come";
  else if (!waited_for.empty())
    what += text(": ", rank_list(waited_for), " did not answer");
  return text(
      "[comm] expected ",
      size(),
      " ranks at ",
      describe(signature_),
      " of ",
      group_text(members(), world().size()),
      " within ",
      deadline_->allowed().count(),
      " ms, but ",
      what,
      "; look at the other ranks, or allow more time (TRIREME_TIMEOUT)");
}

}  // namespace trireme::comm
