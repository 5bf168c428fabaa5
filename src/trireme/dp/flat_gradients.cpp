#include "trireme/dp/flat_gradients.h"

#include <cstring>
#include <map>

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include "trireme/core/error.h"

namespace trireme::dp {
namespace {

at::Tensor make_view(
    const at::Tensor& buffer, int64_t begin, const at::Tensor& parameter) {
  if (parameter.is_non_overlapping_and_dense())
    return at::as_strided(buffer, parameter.sizes(), parameter.strides(), begin);
  return buffer.narrow(0, begin, parameter.numel()).view(parameter.sizes());
}

}  // namespace

FlatGradients::FlatGradients(
    Layout layout, const std::vector<Parameter>& parameters, const comm::Group& group)
    : layout_(std::move(layout)), views_(parameters.size()) {
  // For autograd they are tensors of their own: optimizers detach gradients in place,
  // which views refuse.
  const at::AutoDispatchBelowADInplaceOrView plain;
  std::map<c10::ScalarType, at::Tensor> buffers;
  for (const Layout::Buffer& buffer : layout_.buffers)
    buffers[buffer.dtype] =
        group.allocate({buffer.elements}, at::TensorOptions().dtype(buffer.dtype))
            .zero_();
  for (const BucketRange& range : layout_.buckets) {
    if (range.sparse || range.elements == 0) {
      ranges_.emplace_back();
      riders_.emplace_back();
      continue;
    }
    const at::Tensor& buffer = buffers[range.dtype];
    ranges_.push_back(buffer.narrow(0, range.begin, range.elements));
    riders_.push_back(buffer.narrow(0, range.riders_begin, range.riders));
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Place& place = layout_.places[i];
    const BucketRange& range = layout_.buckets[static_cast<size_t>(place.bucket)];
    if (!range.sparse && range.elements > 0)
      views_[i] = make_view(buffers[range.dtype], place.begin, parameters[i].tensor);
    else if (!range.sparse)
      views_[i] = at::zeros_like(parameters[i].tensor).to(range.dtype);
  }
}

bool FlatGradients::holds(size_t parameter, const at::Tensor& gradient) const {
  const at::Tensor& view = views_[parameter];
  return gradient.is_same(view) ||
         (gradient.layout() == at::kStrided && view.defined() && view.numel() > 0 &&
          gradient.const_data_ptr() == view.const_data_ptr() &&
          gradient.dtype() == view.dtype() && gradient.sizes() == view.sizes() &&
          gradient.strides() == view.strides());
}

void FlatGradients::put(size_t parameter, const at::Tensor& gradient) const {
  const at::Tensor& view = views_[parameter];
  if (gradient.sizes() != view.sizes())
    throw InvalidArgument(text(
        "[dp] expected a gradient of shape ",
        view.sizes(),
        ", got ",
        gradient.sizes(),
        "; leave the shape of .grad as it is"));
  // The way through the dispatcher costs more than the copy of a small gradient.
  if (gradient.dtype() == view.dtype() && gradient.layout() == at::kStrided &&
      gradient.strides() == view.strides() && gradient.is_non_overlapping_and_dense() &&
      gradient.device().is_cpu() && !gradient.is_neg() && !gradient.is_conj()) {
    if (view.numel() > 0)
      std::memcpy(view.mutable_data_ptr(), gradient.const_data_ptr(), view.nbytes());
    return;
  }
  const at::Tensor values = gradient.requires_grad() ? gradient.detach() : gradient;
  view.copy_(values.layout() == at::kStrided ? values : values.to_dense());
}

void FlatGradients::clear(size_t parameter) const {
  const at::Tensor& view = views_[parameter];
  if (view.defined() && view.numel() > 0)
    std::memset(view.mutable_data_ptr(), 0, view.nbytes());
}

}  // namespace trireme::dp
