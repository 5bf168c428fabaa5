// How long things take, counted without a lock.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace trireme::rpc {

/// Counts durations in buckets that are about 3 % wide, from 100 ns to 1000 s; what
/// lies outside goes to the first or the last. Any thread may add at any time; who
/// reads meanwhile may miss the last ones. 9 KiB.
///
///     Latency calls;
///     calls.add(std::chrono::nanoseconds(now_ns() - start));
///     std::cerr << calls.text();  // 512 times, median 98.4 us, 99 % within 310 us, …
class Latency {
 public:
  void add(std::chrono::nanoseconds time);
  /// Adds all that `other` has counted.
  void merge(const Latency& other);

  std::uint64_t count() const;
  /// The time within which that share of all lies, from 0 to 1: never less than it is,
  /// and at most a bucket more. 0 if there are none; InvalidArgument for another share.
  std::chrono::nanoseconds within(double share) const;
  std::chrono::nanoseconds mean() const;
  std::chrono::nanoseconds longest() const;

  /// For people: the count, the median, 90 and 99 in 100, and the longest.
  std::string text() const;

 private:
  // Each power of two is cut into so many buckets.
  static constexpr int kSlicesLog = 5;
  static constexpr std::uint64_t kSlices = 1 << kSlicesLog;
  static constexpr std::uint64_t kLeast = 100;               // ns
  static constexpr std::uint64_t kMost = 1'000'000'000'000;  // ns
  static std::size_t slot(std::uint64_t ns);
  static std::uint64_t end_of_slot(std::size_t slot);
  static constexpr std::size_t kSlots = 36 * kSlices;

  std::array<std::atomic<std::uint64_t>, kSlots> counts_{};
  std::atomic<std::uint64_t> total_{0};    // ns
  std::atomic<std::uint64_t> longest_{0};  // ns
};

/// "980 ns", "12.3 us", "1.24 ms", "3.5 s": three digits.
std::string time_text(std::chrono::nanoseconds time);

}  // namespace trireme::rpc
