// Gradients as views of flat buffers, which peers can read in place.
#pragma once
#include <vector>

#include <ATen/core/Tensor.h>

#include "trireme/comm/group.h"
#include "trireme/dp/bucket_plan.h"
#include "trireme/dp/parameter.h"

namespace trireme::dp {

/// One buffer a dtype, in the group's memory, and a view of it for each parameter's
/// gradient, with the strides of the parameter where those are dense.
class FlatGradients {
 public:
  /// Everything is zero.
  FlatGradients(
      Layout layout,
      const std::vector<Parameter>& parameters,
      const comm::Group& group);

  const Layout& layout() const { return layout_; }
  size_t buckets() const { return layout_.buckets.size(); }
  /// The whole range of a bucket, riders and padding with it; undefined if sparse.
  const at::Tensor& bucket(size_t b) const { return ranges_[b]; }
  /// Its riders alone.
  const at::Tensor& riders(size_t b) const { return riders_[b]; }
  /// The place of a gradient; undefined if it lists rows.
  const at::Tensor& view(size_t parameter) const { return views_[parameter]; }

  /// Whether the tensor is the place of this gradient.
  bool holds(size_t parameter, const at::Tensor& gradient) const;
  /// Copies a gradient to its place.
  void put(size_t parameter, const at::Tensor& gradient) const;
  /// Fills its place with zeros.
  void clear(size_t parameter) const;

 private:
  Layout layout_;
  std::vector<at::Tensor> ranges_;
  std::vector<at::Tensor> riders_;
  std::vector<at::Tensor> views_;
};

}  // namespace trireme::dp
