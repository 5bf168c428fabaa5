// What a group can do together. Free functions; each returns a Work.
#pragma once
#include <chrono>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/comm/collective.h"
#include "trireme/comm/group.h"
#include "trireme/comm/work.h"

namespace trireme::comm {

/// How a collective is carried out.
struct CallOptions {
  /// Run on the group's own thread and return at once. The tensors must stay untouched
  /// until Work::wait() returns.
  bool async = false;
  /// Zero: the group's timeout.
  std::chrono::milliseconds timeout{0};
};

/// The same for reductions.
struct ReduceOptions {
  ReduceOp op = ReduceOp::Sum;
  bool async = false;
  std::chrono::milliseconds timeout{0};
};

// Tensors may be views, non-contiguous or empty. All ranks must pass the same dtype and
// number of elements where nothing else is said: otherwise every rank gets
// InvalidArgument that says who called what. Results are the same on all ranks bit for
// bit, and the same from run to run: sums are taken in the order of the ranks. float16
// and bfloat16 are summed in float32 and rounded once.

/// Every rank's tensor becomes the reduction of all.
Work all_reduce(
    const Group& group, at::Tensor tensor, const ReduceOptions& options = {});

/// The tensor of `root` becomes the reduction of all; the others' stay as they are.
Work reduce(
    const Group& group, at::Tensor tensor, int root, const ReduceOptions& options = {});

/// `input` is size() equal parts; `output` becomes the reduction of everybody's part
/// rank().
Work reduce_scatter(
    const Group& group,
    at::Tensor output,
    const at::Tensor& input,
    const ReduceOptions& options = {});

/// Every rank's tensor becomes that of `root`.
Work broadcast(
    const Group& group, at::Tensor tensor, int root, const CallOptions& options = {});

/// `output` becomes everybody's `input`, one after the other.
Work all_gather(
    const Group& group,
    at::Tensor output,
    const at::Tensor& input,
    const CallOptions& options = {});

/// The same for inputs of different shapes: `outputs` becomes one tensor a rank. Only
/// the dtype must agree. An async call needs `outputs` to live until it has ended.
Work all_gather_uneven(
    const Group& group,
    std::vector<at::Tensor>& outputs,
    const at::Tensor& input,
    const CallOptions& options = {});

/// Both tensors are size() equal parts: rank r's part k goes to rank k, as its part r.
Work all_to_all(
    const Group& group,
    at::Tensor output,
    const at::Tensor& input,
    const CallOptions& options = {});

/// The same with one tensor a rank, of any sizes: inputs[k] goes to rank k, and what
/// comes from rank k goes to outputs[k], which must have as many elements.
Work all_to_all(
    const Group& group,
    std::vector<at::Tensor> outputs,
    const std::vector<at::Tensor>& inputs,
    const CallOptions& options = {});

/// outputs[k] at `root` becomes rank k's input; the others pass no outputs.
Work gather(
    const Group& group,
    std::vector<at::Tensor> outputs,
    const at::Tensor& input,
    int root,
    const CallOptions& options = {});

/// Rank k's output becomes inputs[k] of `root`; the others pass no inputs.
Work scatter(
    const Group& group,
    at::Tensor output,
    const std::vector<at::Tensor>& inputs,
    int root,
    const CallOptions& options = {});

/// Returns when every rank has called it.
Work barrier(const Group& group, const CallOptions& options = {});

}  // namespace trireme::comm
