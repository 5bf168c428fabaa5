// What happens to a bucket between backward and the optimizer: a chain of hooks.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/comm/collective.h"
#include "trireme/comm/group.h"
#include "trireme/dp/parameter.h"

namespace trireme::dp {

/// A bucket of gradients on its way through the hooks. Lives for one call.
class GradBucket {
 public:
  /// One gradient in the bucket.
  struct Entry {
    /// Its number in the model: the same on all ranks and for ever, whatever buckets
    /// become. Keep state by it.
    size_t parameter = 0;
    const Parameter* info = nullptr;
    /// A view of the flat buffer as it came.
    at::Tensor gradient;
    /// Where it begins in the buffer.
    int64_t begin = 0;
    /// What an optimizer steps: the parameter itself or, where backward works with
    /// copies in another dtype, its full values.
    at::Tensor values{};
    /// Whether a rank has a gradient for it; known in after() alone.
    bool used = true;
  };

  /// Where it comes in the order of buckets, and whether it is the last one that hooks
  /// get to see: gradients that list rows do not pass through them.
  size_t index() const { return index_; }
  bool is_last() const { return is_last_; }
  /// Rounds that were reduced before this one.
  int64_t round() const { return round_; }
  const std::vector<Entry>& entries() const { return entries_; }
  const comm::Group& group() const { return group_; }

  /// All gradients as one run of numbers. A hook may work on it, or put another tensor
  /// with as many elements in its place for those that follow.
  at::Tensor& buffer() { return buffer_; }
  /// A gradient as it is in buffer() now, with the sizes and strides of the gradient.
  at::Tensor view(const Entry& entry) const;

  /// Reduces a tensor over the ranks as the options say (a mean, or a sum). What the
  /// end of the chain does with buffer().
  void reduce(const at::Tensor& tensor) const;
  /// What reduce() does: Mean, or Sum where somebody divides later (or nobody does).
  comm::ReduceOp op() const { return op_; }

  /// Says that a gradient was used up: backward returns without it.
  void drop(size_t parameter) { dropped_.push_back(parameter); }

 private:
  friend class BucketComm;
  explicit GradBucket(const comm::Group& group) : group_(group) {}
  size_t index_ = 0;
  bool is_last_ = false;
  int64_t round_ = 0;
  std::vector<Entry> entries_;
  const comm::Group& group_;
  at::Tensor buffer_;
  std::vector<size_t> dropped_;
  comm::ReduceOp op_ = comm::ReduceOp::Sum;
};

/// A link of the chain. It runs on the thread that communicates, while backward goes
/// on, so it may wait for other ranks; the same hooks must run in the same order on all
/// of them. No lock is held: it may ask the DataParallel that it belongs to.
///
///     class Clip : public CommHook {
///      public:
///       std::string name() const override { return "clip"; }
///       void run(GradBucket& bucket, const Next& next) override {
///         bucket.buffer().clamp_(-1, 1);
///         next(bucket);
///       }
///     };
class CommHook {
 public:
  using Next = std::function<void(GradBucket&)>;
  CommHook() = default;
  CommHook(const CommHook&) = delete;
  CommHook& operator=(const CommHook&) = delete;
  virtual ~CommHook() = default;

  virtual std::string name() const = 0;
  /// `next` is the rest of the chain; its end reduces the buffer. What is in buffer()
  /// when the first hook returns becomes the gradients.
  virtual void run(GradBucket& bucket, const Next& next) = 0;
  /// Called on all hooks when a bucket's gradients are final: reduced, divided and in
  /// their places, which entries() show. Those that list rows come one at a time at the
  /// end of backward, without a buffer. Not called for gradients that no rank has.
  virtual void after(GradBucket& /*bucket*/) {}
  /// Whether it reduces in a dtype of a small range, such as float16: then gradients of
  /// a weighted mean come scaled down, by one power of two on all ranks.
  virtual bool is_narrow() const { return false; }
};
using CommHooks = std::vector<std::shared_ptr<CommHook>>;

/// A hook from a function.
///
///     auto hook = make_hook("half", [](GradBucket& b, const auto& next) { … });
std::shared_ptr<CommHook> make_hook(
    std::string name, std::function<void(GradBucket&, const CommHook::Next&)> run);

/// Reduces gradients as if there were no hook: a place to begin, and to compare with.
///
///     dp::DataParallel model(net, group, {.hooks = {dp::make_allreduce_hook()}});
std::shared_ptr<CommHook> make_allreduce_hook();

/// Sends float16 in place of wider numbers: half the bytes of float32. The ranks'
/// values are added up in float32 and rounded once, so that a mean overflows only if a
/// rank's own value does (65504); a sum, or a mean by weight, can, and bfloat16 is
/// safer then.
///
/// It only replaces the buffer for the hooks after it, so it goes together with them:
///
///     {.hooks = {dp::make_fp16_hook(), dp::make_power_sgd_hook()}}
std::shared_ptr<CommHook> make_fp16_hook();

/// The same with bfloat16: the range of float32, but 8 bits of precision in place
/// of 11.
std::shared_ptr<CommHook> make_bf16_hook();

/// Sends nothing: every rank keeps its own gradients. Shows what communication costs.
std::shared_ptr<CommHook> make_noop_hook();

}  // namespace trireme::dp
