// Generated clicks: users who like some items, more or less, and see some of them.
#pragma once
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/autograd/random_stream.h"

namespace trireme::train {

/// Users and the items that they were shown.
struct ClickBatch {
  /// [n, 2]: a user, and an item. Items are numbered behind all users.
  at::Tensor ids;
  /// [n]: 1 where the user has clicked, else 0.
  at::Tensor clicked;
};

/// An endless list of samples. Each follows from the seed and its number, so that any
/// number of trainers may share a batch. Users and items have tastes, which are not
/// told: those that are alike make a click likely. Some items are shown often.
class Clicks {
 public:
  Clicks(uint64_t seed, int64_t users, int64_t items);
  int64_t users() const { return users_; }
  int64_t items() const { return items_; }
  ClickBatch samples(int64_t first, int64_t count) const;
  /// How likely the user clicks on the item.
  double chance(int64_t user, int64_t item) const;

 private:
  static constexpr int64_t kTastes = 4;
  /// Who clicks a lot or is clicked on a lot, and tastes: of users, then of items.
  std::vector<float> traits_;
  autograd::RandomStream draws_;
  int64_t users_;
  int64_t items_;
};

}  // namespace trireme::train
