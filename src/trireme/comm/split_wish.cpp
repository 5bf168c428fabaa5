#include "trireme/comm/split_wish.h"

#include <algorithm>

namespace trireme::comm {

SplitWish share_wishes(Engine& engine, int color, int key, const Deadline& deadline) {
  const auto wishes = share_rows(engine, CollectiveKind::Split, {color, key}, deadline);
  const auto wish_of = [&wishes](int peer, size_t column) {
    return wishes[2 * static_cast<size_t>(peer) + column];
  };
  SplitWish wish;
  for (int peer = 0; peer < engine.size() && color >= 0; ++peer)
    if (wish_of(peer, 0) == color)
      wish.ranks.push_back(peer);
  std::stable_sort(wish.ranks.begin(), wish.ranks.end(), [&wish_of](int a, int b) {
    return wish_of(a, 1) < wish_of(b, 1);
  });
  for (size_t i = 0; i < wish.ranks.size(); ++i) {
    wish.members.push_back(engine.members()[static_cast<size_t>(wish.ranks[i])]);
    if (wish.ranks[i] == engine.rank())
      wish.rank = static_cast<int>(i);
  }
  return wish;
}

}  // namespace trireme::comm
