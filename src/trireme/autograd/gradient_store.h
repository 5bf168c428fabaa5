// Where gradients are put: a tensor's `.grad`, or a map of one's own.
#pragma once
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace trireme::autograd {

/// Where a backward pass adds up the gradients of leaf tensors, and where those who
/// reduce them read and write. One thread uses it at a time.
class GradientStore {
 public:
  GradientStore() = default;
  GradientStore(const GradientStore&) = delete;
  GradientStore& operator=(const GradientStore&) = delete;
  virtual ~GradientStore() = default;

  /// Adds to the gradient of a leaf. If nobody but the caller holds `gradient`, by so
  /// many references, it may be taken over instead of copied.
  virtual void accumulate(
      const at::Tensor& leaf, const at::Tensor& gradient, size_t references) = 0;

  /// The gradient of a leaf; undefined if there is none.
  virtual at::Tensor get(const at::Tensor& leaf) const = 0;
  /// Replaces it; an undefined one removes it.
  virtual void set(const at::Tensor& leaf, const at::Tensor& gradient) = 0;

  /// Whether gradients are in `.grad`, which is where torch's post-accumulate hooks
  /// look for them.
  virtual bool is_grad_field() const { return false; }
  /// For errors.
  virtual std::string name() const { return "gradients apart from .grad"; }
  /// Whether the gradient of this leaf comes to its place only later. The store calls
  /// the leaf's post-accumulate hooks itself then.
  virtual bool holds_back(const at::Tensor& /*leaf*/) const { return false; }
};

/// `.grad`, as torch's own engine fills it.
class GradField final : public GradientStore {
 public:
  void accumulate(
      const at::Tensor& leaf, const at::Tensor& gradient, size_t references) override;
  at::Tensor get(const at::Tensor& leaf) const override;
  void set(const at::Tensor& leaf, const at::Tensor& gradient) override;
  bool is_grad_field() const override { return true; }
  std::string name() const override { return ".grad"; }
};

/// `.grad` again: it has no state, so that one serves all.
GradientStore& grad_field();

/// Gradients apart from `.grad`.
///
///     GradientMap gradients;
///     executor.backward(roots, {.store = &gradients});
///     at::Tensor dw = gradients.get(weight);
class GradientMap final : public GradientStore {
 public:
  void accumulate(
      const at::Tensor& leaf, const at::Tensor& gradient, size_t references) override;
  at::Tensor get(const at::Tensor& leaf) const override;
  void set(const at::Tensor& leaf, const at::Tensor& gradient) override;
  /// Each leaf with its gradient, in no order.
  std::vector<std::pair<at::Tensor, at::Tensor>> all() const;
  void clear() { gradients_.clear(); }
  size_t size() const { return gradients_.size(); }

 private:
  /// The leaf, which must outlive its place here, and its gradient.
  std::unordered_map<c10::TensorImpl*, std::pair<at::Tensor, at::Tensor>> gradients_;
};

}  // namespace trireme::autograd
