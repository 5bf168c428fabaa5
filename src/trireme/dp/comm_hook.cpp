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

}  // namespace trireme::dp
