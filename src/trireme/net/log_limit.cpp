#include "trireme/net/log_limit.h"

#include <utility>

#include "trireme/core/error.h"

namespace trireme::net {

bool LogLimit::is_full(Time now) {
  if (second_ == Time{} || now - second_ >= std::chrono::seconds(1)) {
    second_ = now;
    lines_ = 0;
  }
  return lines_ >= most_;
}

std::string LogLimit::with_others(std::string line, std::uint64_t others) {
  ++lines_;
  left_out_ = 0;
  return others == 0 ? line : text(line, " (and ", others, " others before)");
}

std::optional<std::string> LogLimit::take(std::string line, Time now) {
  if (!is_full(now))
    return with_others(std::move(line), left_out_);
  ++left_out_;
  last_ = std::move(line);
  return std::nullopt;
}

std::optional<std::string> LogLimit::take_rest(Time now) {
  if (left_out_ == 0 || is_full(now))
    return std::nullopt;
  return with_others(std::exchange(last_, {}), left_out_ - 1);
}

}  // namespace trireme::net
