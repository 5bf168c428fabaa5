// What somebody may have meant who mistyped a word.
#pragma once
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::cli {

/// The candidate that takes the fewest insertions, deletions, changes and swaps of
/// neighbours to reach from `word`; the first of equals. Empty if none is within
/// `most`.
std::string nearest(
    std::string_view word,
    const std::vector<std::string>& candidates,
    size_t most = std::numeric_limits<size_t>::max() - 1);

}  // namespace trireme::cli
