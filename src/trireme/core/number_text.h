// Large numbers that people can read.
#pragma once
#include <cstdint>
#include <string>

namespace trireme {

/// 1234567 as "1,234,567".
inline std::string with_thousands(int64_t number) {
  const std::string digits = std::to_string(number);
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && digits[i - 1] != '-' && (digits.size() - i) % 3 == 0)
      grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

}  // namespace trireme
