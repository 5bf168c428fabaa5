// A batch into microbatches, and back.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/pipe/stage_module.h"

namespace trireme::pipe {

/// How one tensor of a batch becomes many: cut along a dim, or given whole to each.
///
///     split({tokens, mask}, 4, {{}, {.replicate = true}});
struct SplitSpec {
  /// Along which it is cut; -1 is the last.
  int64_t dim = 0;
  /// Every microbatch gets the same tensor.
  bool replicate = false;
};

/// How one tensor of many microbatches becomes one again.
///
///     const MergeSpec sum{
///         .how = MergeSpec::How::Fold,
///         .fold = [](const at::Tensor& so_far, const at::Tensor& next) {
///           return so_far + next;
///         }};
struct MergeSpec {
  enum class How : uint8_t {
    /// One after the other along `dim`.
    Concat,
    /// fold(… fold(fold(initial, chunk 0), chunk 1) …), as for a sum of losses.
    Fold,
    /// The first; all must be equal (NaN equals NaN).
    Equal,
  };
  How how = How::Concat;
  /// Concat: along which; -1 is the last.
  int64_t dim = 0;
  std::function<at::Tensor(const at::Tensor& so_far, const at::Tensor& next)> fold{};
  /// What Fold begins with; undefined: with chunk 0.
  at::Tensor initial{};
};

/// Cuts a batch: `microbatches` lists of tensors, each as long as the batch. Uneven
/// sizes are cut as tensor_split does, so the first microbatches get a row more. What
/// comes is views, and an undefined tensor stays undefined in each. Without specs all
/// are cut along dim 0. InvalidArgument if there are less rows than microbatches, if a
/// tensor has no such dim, or if there are not as many specs as tensors.
///
///     for (const Tensors& microbatch : split({tokens, targets}, 8))
///       train(microbatch[0], microbatch[1]);
std::vector<Tensors> split(
    const Tensors& batch, int microbatches, const std::vector<SplitSpec>& specs = {});

/// Makes one list of tensors of many. Without specs all are concatenated along dim 0. A
/// tensor must be there in all of them or in none. InvalidArgument if they do not fit.
Tensors merge(
    const std::vector<Tensors>& chunks, const std::vector<MergeSpec>& specs = {});

/// The rows of a microbatch, for weights: the size of the first tensor that is cut,
/// along its dim. Nothing if there is none.
std::optional<int64_t> rows(
    const Tensors& tensors, const std::vector<SplitSpec>& specs = {});

}  // namespace trireme::pipe
