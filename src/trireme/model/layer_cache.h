// What a layer remembers of the tokens it has seen, for one token after the other.
#pragma once
#include <cstdint>
#include <utility>

#include <ATen/core/Tensor.h>

namespace trireme::model {

/// Keys and values of past positions: [n, heads, room, size], of which `length` are in
/// use. Room doubles when it is full, so that n tokens cost n copies, not n².
struct LayerCache {
  at::Tensor keys;
  at::Tensor values;
  int64_t length = 0;

  /// Appends those of new positions (and counts them), and gives all of them.
  /// InvalidArgument if they are of another batch.
  std::pair<at::Tensor, at::Tensor> append(
      const at::Tensor& new_keys, const at::Tensor& new_values);
};

/// A module that can compute new positions without the old ones: implement it for every
/// layer of a model that shall be sampled from quickly. Where a layer sees one position
/// at a time, decode() is forward().
class CachedLayer {
 public:
  virtual ~CachedLayer() = default;
  /// What forward() would give for these positions [n, t, …] if it had seen those in
  /// the cache before. A layer that needs to know where it is adds t to cache.length.
  virtual at::Tensor decode(const at::Tensor& x, LayerCache& cache) = 0;
};

}  // namespace trireme::model
