// The middle of some numbers.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

namespace trireme {

/// The number in the middle, the upper one of two; 0 if there are none.
inline double median(std::vector<double> numbers) {
  if (numbers.empty())
    return 0;
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

}  // namespace trireme
