#include "trireme/model/layer_cache.h"

#include <algorithm>

#include <ATen/ops/empty.h>

#include "trireme/core/error.h"

namespace trireme::model {
namespace {

constexpr int64_t kSmallestRoom = 64;

void make_room(at::Tensor& kept, const at::Tensor& fresh, int64_t length) {
  const int64_t needed = length + fresh.size(2);
  if (kept.defined() && kept.size(2) >= needed)
    return;
  std::vector<int64_t> sizes = fresh.sizes().vec();
  sizes[2] = std::max({needed, kSmallestRoom, kept.defined() ? 2 * kept.size(2) : 0});
  const at::Tensor larger = at::empty(sizes, fresh.options());
  if (length > 0)
    larger.narrow(2, 0, length).copy_(kept.narrow(2, 0, length));
  kept = larger;
}

at::Tensor put_behind(at::Tensor& kept, const at::Tensor& fresh, int64_t length) {
  make_room(kept, fresh, length);
  kept.narrow(2, length, fresh.size(2)).copy_(fresh);
  return kept.narrow(2, 0, length + fresh.size(2));
}

bool fits(const at::Tensor& kept, const at::Tensor& fresh) {
  return kept.defined() && kept.size(0) == fresh.size(0) &&
         kept.size(1) == fresh.size(1) && kept.size(3) == fresh.size(3) &&
         kept.scalar_type() == fresh.scalar_type();
}

}  // namespace

std::pair<at::Tensor, at::Tensor> LayerCache::append(
    const at::Tensor& new_keys, const at::Tensor& new_values) {
  if (!fits(keys, new_keys)) {
    if (length > 0)
      throw InvalidArgument(text(
          "[model] expected new positions of the batch in the cache, ",
          keys.sizes(),
          ", got keys of ",
          new_keys.sizes(),
          "; call reset() before another batch"));
    keys = values = at::Tensor();
  }
  auto all = std::pair{
      put_behind(keys, new_keys, length), put_behind(values, new_values, length)};
  length += new_keys.size(2);
  return all;
}

}  // namespace trireme::model
