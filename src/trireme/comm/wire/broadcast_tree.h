// From whom a rank gets what is broadcast, and to whom it hands it on.
#pragma once
#include <vector>

namespace trireme::comm {

/// A rank's place in a broadcast; all ranks count from the root, which is 0.
struct BroadcastTree {
  /// -1 at the root.
  int parent = -1;
  std::vector<int> children;
};

/// A binomial tree: a logarithm of rounds, in which everybody who has it hands it on.
/// The child with most below it comes first.
BroadcastTree binomial_tree(int rank, int size);

/// A chain: each hands it on to the next. Every link carries it once, so with many
/// pieces all links are busy.
BroadcastTree chain_tree(int rank, int size);

}  // namespace trireme::comm
