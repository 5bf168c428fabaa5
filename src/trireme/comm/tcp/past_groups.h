// Which groups are over for a rank, however many there were.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace trireme::comm {

/// A set of groups' numbers. GroupIds counts those that a rank leads in steps of the
/// world's size, so each costs little more than a bit.
class PastGroups {
 public:
  explicit PastGroups(int ranks) : ranks_(static_cast<uint32_t>(ranks)) {}

  void add(uint32_t group) {
    std::vector<bool>& led = led_[group % ranks_];
    const size_t at = group / ranks_;
    if (led.size() <= at)
      led.resize(at + 1);
    led[at] = true;
  }
  bool contains(uint32_t group) const {
    const auto led = led_.find(group % ranks_);
    const size_t at = group / ranks_;
    return led != led_.end() && at < led->second.size() && led->second[at];
  }

 private:
  uint32_t ranks_;
  std::map<uint32_t, std::vector<bool>> led_;
};

}  // namespace trireme::comm
