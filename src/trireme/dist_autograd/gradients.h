// The gradients of a context, apart from `.grad`.
#pragma once
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "trireme/autograd/gradient_store.h"

namespace trireme::dist_autograd {

/// A worker's gradients in one context: a pass adds to them, any thread may read.
class Gradients final : public autograd::GradientStore {
 public:
  explicit Gradients(std::string name) : name_(std::move(name)) {}

  void accumulate(
      const at::Tensor& leaf, const at::Tensor& gradient, size_t references) override {
    const std::lock_guard lock(mutex_);
    map_.accumulate(leaf, gradient, references);
  }
  at::Tensor get(const at::Tensor& leaf) const override {
    const std::lock_guard lock(mutex_);
    return map_.get(leaf);
  }
  void set(const at::Tensor& leaf, const at::Tensor& gradient) override {
    const std::lock_guard lock(mutex_);
    map_.set(leaf, gradient);
  }
  std::string name() const override { return name_; }
  /// Each leaf with its gradient.
  std::vector<std::pair<at::Tensor, at::Tensor>> all() const {
    const std::lock_guard lock(mutex_);
    return map_.all();
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    map_.clear();
  }

 private:
  const std::string name_;
  mutable std::mutex mutex_;
  autograd::GradientMap map_;
};

}  // namespace trireme::dist_autograd
