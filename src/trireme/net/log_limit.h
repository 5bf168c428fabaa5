// How a log stays readable in a flood.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace trireme::net {

/// Lets so many lines through in a second, and counts the others. Does not print, and
/// is told the time.
class LogLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit LogLimit(int lines_a_second) : most_(lines_a_second) {}

  /// The line as it is to be printed, with how many were left out before it; or
  /// nothing.
  std::optional<std::string> take(std::string line, Time now);
  /// The last of those that were left out, once its time has come; to be asked now and
  /// then, because no other line may follow.
  std::optional<std::string> take_rest(Time now);

 private:
  bool is_full(Time now);
  std::string with_others(std::string line, std::uint64_t others);

  const int most_;
  Time second_{};  // when the one began that is counted
  int lines_ = 0;
  std::uint64_t left_out_ = 0;
  std::string last_;
};

}  // namespace trireme::net
