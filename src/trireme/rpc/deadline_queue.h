// Which of many calls is late first.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "trireme/rpc/link.h"

namespace trireme::rpc {

/// Numbers by deadline. Those that are over early stay inside until they are more than
/// half of it, which costs each number a constant time.
class DeadlineQueue {
 public:
  void add(Time deadline, std::uint64_t number) {
    entries_.emplace_back(deadline, number);
    std::push_heap(entries_.begin(), entries_.end(), std::greater<>());
  }

  /// The next deadline; Time::max() if there is none. It may be of a number that is
  /// over.
  Time next() const { return entries_.empty() ? Time::max() : entries_.front().first; }

  /// Takes a number whose deadline has passed; 0 if there is none.
  std::uint64_t take(Time now) {
    if (next() > now)
      return 0;
    std::pop_heap(entries_.begin(), entries_.end(), std::greater<>());
    const std::uint64_t number = entries_.back().second;
    entries_.pop_back();
    return number;
  }

  /// Forgets what is over, where that is most of it. `alive` says which are not.
  template <class Alive>
  void tidy(std::size_t living, const Alive& alive) {
    if (entries_.size() < 2 * living + 64)
      return;
    std::erase_if(entries_, [&](const auto& entry) { return !alive(entry.second); });
    std::make_heap(entries_.begin(), entries_.end(), std::greater<>());
  }

  std::size_t size() const { return entries_.size(); }

 private:
  std::vector<std::pair<Time, std::uint64_t>> entries_;
};

}  // namespace trireme::rpc
