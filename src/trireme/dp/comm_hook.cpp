#include "trireme/dp/comm_hook.h"

#include <utility>

#include <ATen/Functions.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"

namespace trireme::dp {
namespace {

class FunctionHook final : public CommHook {
 public:
  FunctionHook(std::string name, std::function<void(GradBucket&, const Next&)> function)
      : name_(std::move(name)), function_(std::move(function)) {}
  std::string name() const override { return name_; }
  void run(GradBucket& bucket, const Next& next) override { function_(bucket, next); }

 private:
  std::string name_;
  std::function<void(GradBucket&, const Next&)> function_;
};

class CastHook final : public CommHook {
 public:
  CastHook(std::string name, c10::ScalarType dtype)
      : name_(std::move(name)), dtype_(dtype) {}

  std::string name() const override { return name_; }
  bool is_narrow() const override { return dtype_ == c10::ScalarType::Half; }

  void run(GradBucket& bucket, const Next& next) override {
    const at::Tensor whole = bucket.buffer();
    // Complex numbers have no half that all ranks can add up, and halves are small.
    if (!whole.is_floating_point() || whole.element_size() <= 2)
      return next(bucket);
    bucket.buffer() = whole.to(dtype_);
    next(bucket);
    whole.copy_(bucket.buffer());
    bucket.buffer() = whole;
  }

 private:
  std::string name_;
  c10::ScalarType dtype_;
};

}  // namespace

void GradBucket::reduce(const at::Tensor& tensor) const {
  comm::all_reduce(group_, tensor, {.op = op_});
}

at::Tensor GradBucket::view(const Entry& entry) const {
  if (!buffer_.is_contiguous())
    throw InvalidArgument(text(
        "[dp] expected hooks to leave a contiguous buffer, got strides ",
        buffer_.strides(),
        "; call contiguous() on what replaces it"));
  return at::as_strided(
      buffer_,
      entry.gradient.sizes(),
      entry.gradient.strides(),
      buffer_.storage_offset() + entry.begin);
}

std::shared_ptr<CommHook> make_hook(
    std::string name, std::function<void(GradBucket&, const CommHook::Next&)> run) {
  if (!run)
    throw InvalidArgument(
        text("[dp] expected a function for the hook ", name, ", got none; give one"));
  return std::make_shared<FunctionHook>(std::move(name), std::move(run));
}

std::shared_ptr<CommHook> make_allreduce_hook() {
  return make_hook("allreduce", [](GradBucket& bucket, const CommHook::Next& next) {
    next(bucket);
  });
}

std::shared_ptr<CommHook> make_fp16_hook() {
  return std::make_shared<CastHook>("fp16", c10::ScalarType::Half);
}

std::shared_ptr<CommHook> make_bf16_hook() {
  return std::make_shared<CastHook>("bf16", c10::ScalarType::BFloat16);
}

std::shared_ptr<CommHook> make_noop_hook() {
  return make_hook("noop", [](GradBucket&, const CommHook::Next&) {});
}

}  // namespace trireme::dp
