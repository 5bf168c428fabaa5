#include "trireme/autograd/gradient_store.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

namespace trireme::autograd {
namespace {

using torch::autograd::AccumulateGrad;

void add(
    const at::Tensor& leaf,
    at::Tensor& sum,
    const at::Tensor& gradient,
    size_t references) {
  // torch looks at the tensor only. Its memory may be that of a gradient that is still
  // on its way to another stage, which the next sum would change.
  if (gradient.layout() == at::kStrided && gradient.has_storage() &&
      gradient.storage().use_count() > 1)
    references = 0;
  AccumulateGrad::accumulateGrad(
      leaf, sum, gradient, references, [&sum](at::Tensor&& updated) {
        sum = std::move(updated);
      });
}

}  // namespace

void GradField::accumulate(
    const at::Tensor& leaf, const at::Tensor& gradient, size_t references) {
  add(leaf, leaf.mutable_grad(), gradient, references);
}

at::Tensor GradField::get(const at::Tensor& leaf) const {
  return leaf.grad();
}

void GradField::set(const at::Tensor& leaf, const at::Tensor& gradient) {
  leaf.mutable_grad() = gradient;
}

GradientStore& grad_field() {
  static GradField field;
  return field;
}

void GradientMap::accumulate(
    const at::Tensor& leaf, const at::Tensor& gradient, size_t references) {
  auto& [held, sum] = gradients_[leaf.unsafeGetTensorImpl()];
  if (!held.defined())
    held = leaf;
  add(leaf, sum, gradient, references);
}

at::Tensor GradientMap::get(const at::Tensor& leaf) const {
  const auto found = gradients_.find(leaf.unsafeGetTensorImpl());
  return found == gradients_.end() ? at::Tensor() : found->second.second;
}

std::vector<std::pair<at::Tensor, at::Tensor>> GradientMap::all() const {
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs;
  pairs.reserve(gradients_.size());
  for (const auto& [leaf, pair] : gradients_)
    pairs.push_back(pair);
  return pairs;
}

void GradientMap::set(const at::Tensor& leaf, const at::Tensor& gradient) {
  if (gradient.defined())
    gradients_[leaf.unsafeGetTensorImpl()] = {leaf, gradient};
  else
    gradients_.erase(leaf.unsafeGetTensorImpl());
}

}  // namespace trireme::autograd
