// What a pipeline asks of those who reduce gradients over other ranks.
#pragma once
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trireme::autograd {

class GradientStore;

/// The link between a pipeline and data parallelism: the pipeline says when, and
/// whoever implements this knows how. The calls come from the rank's thread, in the
/// order of its schedule; none of them should wait for another rank but finish().
class GradientSync {
 public:
  GradientSync() = default;
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;
  virtual ~GradientSync() = default;

  /// The next backward of this stage that makes gradients of weights is its last one in
  /// this step: from here on each gradient is complete as soon as it is there, and its
  /// reduction may start.
  virtual void last_backward(int stage) = 0;
  /// REDUCE_GRAD: all gradients of the stage are complete.
  virtual void reduce(int stage) = 0;
  /// The step is over: waits for what was started.
  virtual void finish() = 0;

  /// The step has failed: stops what was started, on this rank. Others have heard of
  /// the failure.
  virtual void abandon() noexcept = 0;

  /// The gradients of these leaves are complete only when finish() is called: other
  /// stages add to them. Called before the first step; replaces an earlier list.
  virtual void leave_to_finish(const std::vector<at::Tensor>& leaves) = 0;

  /// Where the pipeline puts gradients: called before its first step, and before each
  /// one that trains. InvalidArgument if this reduces those of another store.
  virtual void use(GradientStore& /*store*/) {}

  /// What gradients are added up in, where it is not their parameters' dtype: what
  /// comes to its place only at finish() had best come in it.
  virtual std::optional<at::ScalarType> gradient_dtype() const { return std::nullopt; }

  /// UNSHARD and RESHARD, for parameters that are spread over the ranks.
  virtual void unshard(int stage) = 0;
  virtual void reshard(int stage) = 0;
};

}  // namespace trireme::autograd
