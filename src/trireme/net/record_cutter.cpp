#include "trireme/net/record_cutter.h"

#include <algorithm>

#include "trireme/core/error.h"

namespace trireme::net {

std::span<const char> RecordCutter::next(std::vector<char>& scratch) const {
  const auto first = rest_of(0);
  if (first.size() >= kRecord)
    return first.first(kRecord);
  scratch.clear();
  for (std::size_t i = 1; i < parts_.size(); ++i) {
    const auto part = rest_of(i);
    const std::size_t room =
        kRecord - (scratch.empty() ? first.size() : scratch.size());
    const std::size_t taken = std::min(part.size(), room);
    if (part.empty())
      continue;
    // A large part is better sent from where it is.
    if (part.size() >= kRecord || taken == 0 || (taken == 1 && part.size() > 1))
      break;
    if (scratch.empty()) {
      scratch.reserve(kRecord);
      scratch.assign(first.begin(), first.end());
    }
    scratch.insert(scratch.end(), part.begin(), part.begin() + taken);
  }
  return scratch.empty() ? first : std::span<const char>(scratch);
}

void RecordCutter::skip(std::size_t bytes) {
  while (bytes > 0) {
    TRIREME_ASSERT(!parts_.empty());
    const std::size_t step = std::min(bytes, rest_of(0).size());
    done_ += step;
    bytes -= step;
    drop_empty();
  }
}

void RecordCutter::drop_empty() {
  while (!parts_.empty() && done_ == parts_.front().iov_len) {
    parts_ = parts_.subspan(1);
    done_ = 0;
  }
}

std::span<const char> RecordCutter::rest_of(std::size_t part) const {
  const iovec& one = parts_[part];
  const std::size_t from = part == 0 ? done_ : 0;
  return {static_cast<const char*>(one.iov_base) + from, one.iov_len - from};
}

}  // namespace trireme::net
