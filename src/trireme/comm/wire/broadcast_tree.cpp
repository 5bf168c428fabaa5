#include "trireme/comm/wire/broadcast_tree.h"

namespace trireme::comm {

BroadcastTree binomial_tree(int rank, int size) {
  BroadcastTree tree;
  // The lowest bit of a rank says from where it comes; below that bit are its children.
  int lowest = 1;
  while (lowest < size && (rank & lowest) == 0)
    lowest *= 2;
  if (rank != 0)
    tree.parent = rank - lowest;
  for (int step = lowest / 2; step > 0; step /= 2)
    if (rank + step < size)
      tree.children.push_back(rank + step);
  return tree;
}

BroadcastTree chain_tree(int rank, int size) {
  BroadcastTree tree{.parent = rank - 1};
  if (rank + 1 < size)
    tree.children.push_back(rank + 1);
  return tree;
}

}  // namespace trireme::comm
