// Names in messages.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "trireme/core/error.h"

namespace trireme {

/// Names for a message: "a, b, c"; of many, some and how many there are.
inline std::string list_names(const std::vector<std::string>& names) {
  constexpr size_t kMost = 12;
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i)
    out += text(i == 0 ? "" : ", ", names[i]);
  if (names.size() > kMost)
    out += text(", ... (", names.size(), " in all)");
  return out.empty() ? "none" : out;
}

}  // namespace trireme
