// The middle of some numbers.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

namespace trireme::pipe {

/// The upper one of the two middle ones, if there are two; 0 of none.
inline double median(std::vector<double> numbers) {
  if (numbers.empty())
    return 0;
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

}  // namespace trireme::pipe
