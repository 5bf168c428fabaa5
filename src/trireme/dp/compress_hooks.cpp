#include "trireme/dp/compress_hooks.h"

#include <utility>

#include <ATen/Functions.h>

namespace trireme::dp {
namespace {

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
