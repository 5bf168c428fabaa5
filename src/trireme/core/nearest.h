// What somebody may have meant who mistyped a word.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// The candidate that takes the fewest insertions, deletions, changes and swaps of
/// neighbours to reach from `word`; the first of equals. Empty if each would take more
/// than one step for every three letters of the longer word: nobody means that.
///
///     nearest("trian", {"train", "bench"})  // "train"
///     nearest("bogus", {"train", "bench"})  // ""
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// The end of a message: "; did you mean train?", or nothing.
std::string did_you_mean(
    std::string_view word, const std::vector<std::string>& candidates);

}  // namespace trireme
