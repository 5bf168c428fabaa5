// Large numbers that people can read.
#pragma once
#include <array>
#include <cstdint>
#include <iomanip>
#include <sstream>
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

/// "7 bytes", "1.5 KiB", "340 MiB", "23.5 GiB".
template <class Number>
std::string bytes_text(Number bytes) {
  constexpr std::array kUnits{" bytes", " KiB", " MiB", " GiB", " TiB"};
  auto size = static_cast<double>(bytes);
  size_t unit = 0;
  // 1000 and not 1024, so that there are never four digits.
  while ((unit == 0 ? size >= 1024 : size >= 1000) && unit + 1 < kUnits.size()) {
    size /= 1024;
    ++unit;
  }
  std::ostringstream out;
  out << std::fixed << std::setprecision(unit > 0 && size < 100 ? 1 : 0) << size
      << kUnits[unit];
  return out.str();
}

}  // namespace trireme
