#include "trireme/core/nearest.h"

#include <algorithm>
#include <limits>

#include "trireme/core/error.h"

namespace trireme {
namespace {

// The distance of Damerau and Levenshtein (optimal string alignment).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      const bool same = a[i - 1] == b[j - 1];
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

// How far a word may be from another and still be meant.
size_t most_steps(std::string_view a, std::string_view b) {
  return (std::max(a.size(), b.size()) + 2) / 3;
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  size_t least = std::numeric_limits<size_t>::max();
  std::string found;
  for (const std::string& candidate : candidates) {
    const size_t most = most_steps(word, candidate);
    // It takes a step for every letter too many; and the table grows with the length.
    if (word.size() > candidate.size() + most)
      continue;
    const size_t steps = distance(word, candidate);
    if (steps <= most && steps < least) {
      least = steps;
      found = candidate;
    }
  }
  return found;
}

std::string did_you_mean(
    std::string_view word, const std::vector<std::string>& candidates) {
  const std::string close = nearest(word, candidates);
  return close.empty() ? "" : text("; did you mean ", close, "?");
}

}  // namespace trireme
