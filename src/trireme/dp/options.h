// What data parallelism is made with: one set of options for a module, for the stages
// of a pipeline and for the reducer below both.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/autograd/gradient_store.h"
#include "trireme/comm/group.h"
#include "trireme/dp/bucket_plan.h"
#include "trireme/dp/comm_hook.h"

namespace trireme::dp {

/// How the gradients of the ranks become one.
enum class Reduction {
  Mean,
  Sum,
  /// Each rank's gradient counts as often as its weight says: the number of its samples
  /// or tokens.
  WeightedMean,
};

using NamedBuffers = std::vector<std::pair<std::string, at::Tensor>>;

/// How buffers are made equal.
enum class BufferMode {
  Off,
  /// All take those of one rank.
  Broadcast,
  /// All take the mean of all; integers come from rank 0.
  Average,
  /// A function of yours does it.
  Hook,
};

/// What is done with buffers, and when.
struct BufferOptions {
  BufferMode mode = BufferMode::Broadcast;
  /// Right after the forward that changed them, instead of before the next one.
  bool after_forward = false;
  /// Whose buffers count.
  int source = 0;
  std::function<void(const comm::Group&, const NamedBuffers&)> hook{};
};

/// Which part of the work is done in which dtype. Parameters themselves, and what the
/// optimizer sees, stay as they are.
struct MixedPrecision {
  /// Of the copies that forward and backward use, and of inputs.
  std::optional<c10::ScalarType> parameters{};
  /// That gradients are added up and reduced in; none: that of the parameters.
  std::optional<c10::ScalarType> reduction{};
  /// Of buffers, from the start.
  std::optional<c10::ScalarType> buffers{};
};

/// All ranks give the same.
struct DataParallelOptions {
  /// A bucket is closed by the parameter that fills it up to this size; the first one
  /// is smaller, so that the first reduction begins early. Or every limit by itself.
  size_t bucket_bytes = size_t{25} << 20;
  size_t first_bucket_bytes = size_t{1} << 20;
  std::vector<size_t> bucket_bytes_list{};
  /// Mean over the ranks, sum, or mean by weight: see set_weight().
  Reduction reduction = Reduction::Mean;
  /// Parameters may stay without a gradient, and not the same ones on all ranks.
  bool find_unused = false;
  /// Every backward runs the same graph; allows blocks that are checkpointed twice.
  bool static_graph = false;
  /// Put gradients into buckets in the order in which they come.
  bool rebuild = true;
  /// Verify and broadcast the model at the start.
  bool init_sync = true;
  BufferOptions buffers{};
  /// Names of parameters and buffers that are left alone.
  std::vector<std::string> ignore{};
  /// Names of parameters that no backward reduces, only reduce_delayed().
  std::vector<std::string> delay{};
  /// What gradients are added up and reduced in, if it is not the parameters' dtype:
  /// float32 for a model in bfloat16.
  std::optional<c10::ScalarType> gradient_dtype{};
  /// Leave `.grad` in that dtype, as it was reduced, instead of rounding it to the
  /// parameter's: for optimizers that keep masters.
  bool unrounded = false;
  /// Compute with copies of the parameters in another dtype.
  MixedPrecision mixed_precision{};
  /// Refuse NaN and infinity, with rank and parameter, before they spread.
  bool check_finite = false;
  /// Take norms of gradients as they land, for clip_grad_norm().
  bool norm = false;
  /// Compare the values of all ranks every so many rounds; 0 is never.
  int64_t check_replicas_every = 0;
  CommHooks hooks{};
  /// Instead of `hooks` for the stages of a pipeline: each stage has its own, since
  /// they keep state by parameter.
  std::function<CommHooks(int stage)> stage_hooks{};
  /// Where gradients of stages are, if not in `.grad`. A Pipeline hands its own store
  /// on, so only those set it who call a StageSync themselves.
  autograd::GradientStore* store = nullptr;

  /// What gradients are added up and reduced in; none: in the parameters' dtype.
  std::optional<c10::ScalarType> reduction_dtype() const {
    return mixed_precision.reduction ? mixed_precision.reduction : gradient_dtype;
  }
  /// InvalidArgument if a limit is 0.
  BucketLimits limits() const;
};

/// InvalidArgument, with the name of the option, for what cannot be right for a module
/// on the ranks of this group.
void check_module_options(const DataParallelOptions& options, const comm::Group& group);
/// The same for the stages of a pipeline.
void check_stage_options(const DataParallelOptions& options);

/// The options in words, a line each: what ranks must agree on.
std::vector<std::string> option_lines(const DataParallelOptions& options);

}  // namespace trireme::dp
