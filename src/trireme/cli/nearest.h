// What somebody may have meant who mistyped a word.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace trireme::cli {

/// The candidate that takes the fewest insertions, deletions, changes and swaps of
/// neighbours to reach from `word`; the first of equals, empty without candidates.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace trireme::cli
