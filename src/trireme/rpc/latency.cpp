#include "trireme/rpc/latency.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "trireme/core/error.h"
#include "trireme/core/number_text.h"

namespace trireme::rpc {
namespace {

std::uint64_t load(const std::atomic<std::uint64_t>& number) {
  return number.load(std::memory_order_relaxed);
}

void raise_to(std::atomic<std::uint64_t>& number, std::uint64_t to) {
  std::uint64_t now = load(number);
  while (now < to &&
         !number.compare_exchange_weak(now, to, std::memory_order_relaxed)) {
  }
}

}  // namespace

// The leading bit and the kSlicesLog bits below it.
std::size_t Latency::slot(std::uint64_t ns) {
  const int shift = std::bit_width(ns) - 1 - kSlicesLog;
  return static_cast<std::size_t>(shift) * kSlices + (ns >> shift) - kSlices;
}

// The greatest time in it.
std::uint64_t Latency::end_of_slot(std::size_t slot) {
  const std::uint64_t shift = slot / kSlices;
  return ((slot % kSlices + kSlices + 1) << shift) - 1;
}

void Latency::add(std::chrono::nanoseconds time) {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
  counts_[slot(std::clamp(ns, kLeast, kMost))].fetch_add(1, std::memory_order_relaxed);
  total_.fetch_add(ns, std::memory_order_relaxed);
  raise_to(longest_, ns);
}

void Latency::merge(const Latency& other) {
  for (std::size_t i = 0; i < kSlots; ++i)
    if (const std::uint64_t count = load(other.counts_[i]))
      counts_[i].fetch_add(count, std::memory_order_relaxed);
  total_.fetch_add(load(other.total_), std::memory_order_relaxed);
  raise_to(longest_, load(other.longest_));
}

std::uint64_t Latency::count() const {
  std::uint64_t all = 0;
  for (const auto& count : counts_)
    all += load(count);
  return all;
}

std::chrono::nanoseconds Latency::within(double share) const {
  if (!(share >= 0 && share <= 1))
    throw InvalidArgument(trireme::text(
        "[rpc] expected a share from 0 to 1, got ", share, "; write 0.99 for 99 %"));
  const auto all = static_cast<double>(count());
  const auto rank =
      std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(share * all)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kSlots; ++i) {
    seen += load(counts_[i]);
    if (seen >= rank)
      return std::chrono::nanoseconds(std::min(end_of_slot(i), load(longest_)));
  }
  return longest();
}

std::chrono::nanoseconds Latency::mean() const {
  const std::uint64_t all = count();
  return std::chrono::nanoseconds(all == 0 ? 0 : load(total_) / all);
}

std::chrono::nanoseconds Latency::longest() const {
  return std::chrono::nanoseconds(load(longest_));
}

std::string Latency::text() const {
  const std::uint64_t all = count();
  if (all == 0)
    return "never";
  return trireme::text(
      with_thousands(static_cast<std::int64_t>(all)),
      all == 1 ? " time, median " : " times, median ",
      time_text(within(0.5)),
      ", 90 % within ",
      time_text(within(0.9)),
      ", 99 % within ",
      time_text(within(0.99)),
      ", longest ",
      time_text(longest()));
}

std::string time_text(std::chrono::nanoseconds time) {
  constexpr std::array kUnits{" ns", " us", " ms", " s"};
  auto number = static_cast<double>(time.count());
  std::size_t unit = 0;
  // What would round up to 1000 belongs to the next unit.
  while (number >= 999.5 && unit + 1 < kUnits.size()) {
    number /= 1000;
    ++unit;
  }
  const int digits = unit == 0 || number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2;
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << number << kUnits[unit];
  return out.str();
}

}  // namespace trireme::rpc
