// A list for what a call needs of each rank.
#pragma once
#include <cstddef>
#include <initializer_list>

#include <c10/util/SmallVector.h>

namespace trireme::comm {

/// A list of about one entry a rank, without an allocation for usual sizes of a group.
///
///     PerRank<Piece> take(engine.size());
///     take[root] = piece;
template <class T>
class PerRank : public c10::SmallVector<T, 16> {
 public:
  PerRank() = default;
  PerRank(std::initializer_list<T> entries) : c10::SmallVector<T, 16>(entries) {}
  /// One empty entry a rank.
  explicit PerRank(size_t ranks) { fill(ranks); }

 private:
  // Out of line, or GCC takes the room for entries for a variable that nobody has set.
  [[gnu::noinline]] void fill(size_t ranks) { this->resize(ranks); }
};

}  // namespace trireme::comm
