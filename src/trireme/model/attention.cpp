#include "trireme/model/attention.h"

#include <limits>
#include <optional>

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include "trireme/autograd/dropout.h"

namespace trireme::model {
namespace {

// What each query may see: true on and below the diagonal that ends in the corner.
at::Tensor visible(const at::Tensor& queries, const at::Tensor& keys) {
  const int64_t t = queries.size(-2), s = keys.size(-2);
  return at::ones({t, s}, queries.options().dtype(at::ScalarType::Bool)).tril(s - t);
}

// [n, few, s, size] -> [n, heads, s, size]: each of the few serves several heads.
at::Tensor repeat_heads(const at::Tensor& x, int64_t heads) {
  const int64_t few = x.size(1);
  if (few == heads)
    return x;
  const auto n = x.size(0), s = x.size(2), size = x.size(3);
  return x.unsqueeze(2)
      .expand({n, few, heads / few, s, size})
      .reshape({n, heads, s, size});
}

// torch's own draws its masks from the generator that all ranks share.
at::Tensor with_dropout(
    const at::Tensor& queries,
    const at::Tensor& keys,
    const at::Tensor& values,
    const AttentionOptions& options) {
  const int64_t heads = queries.size(1);
  const at::Tensor scores =
      at::matmul(queries * options.scale, repeat_heads(keys, heads).transpose(-2, -1));
  const at::Tensor hidden = visible(queries, keys).logical_not();
  const at::Tensor probabilities =
      at::softmax(
          scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()),
          -1,
          at::ScalarType::Float)
          .to(values.scalar_type());
  return at::matmul(
      autograd::dropout(probabilities, options.dropout, options.layer, true),
      repeat_heads(values, heads));
}

at::Tensor fused(
    const at::Tensor& queries,
    const at::Tensor& keys,
    const at::Tensor& values,
    const AttentionOptions& options) {
  const int64_t t = queries.size(-2), s = keys.size(-2);
  // One query sees everything; several after a past need a mask of their own.
  std::optional<at::Tensor> mask;
  if (t > 1 && s > t)
    mask = visible(queries, keys);
  return at::scaled_dot_product_attention(
      queries,
      keys,
      values,
      mask,
      /*dropout_p=*/0,
      /*is_causal=*/t > 1 && s == t,
      options.scale,
      /*enable_gqa=*/queries.size(1) != keys.size(1));
}

}  // namespace

at::Tensor causal_attention(
    const at::Tensor& queries,
    const at::Tensor& keys,
    const at::Tensor& values,
    const AttentionOptions& options) {
  const at::Tensor mixed = options.dropout > 0
                               ? with_dropout(queries, keys, values, options)
                               : fused(queries, keys, values, options);
  return mixed.transpose(1, 2).reshape(
      {queries.size(0), queries.size(2), queries.size(1) * queries.size(3)});
}

}  // namespace trireme::model
