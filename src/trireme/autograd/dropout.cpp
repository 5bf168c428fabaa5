#include "trireme/autograd/dropout.h"

#include <cmath>
#include <string>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/autograd/dropout_kernel.h"
#include "trireme/autograd/node.h"
#include "trireme/autograd/random_stream.h"
#include "trireme/core/error.h"

namespace trireme::autograd {
namespace {

at::Tensor masked(const at::Tensor& x, const DropoutMask& mask);

/// The gradient goes through the same mask.
class DropoutBackward : public Node {
 public:
  DropoutBackward(edge_list edges, const DropoutMask& mask)
      : Node(std::move(edges)), mask_(mask) {}
  std::string name() const override { return "trireme::DropoutBackward"; }
  variable_list apply(variable_list&& gradients) override {
    return {gradients[0].defined() ? masked(gradients[0], mask_) : at::Tensor()};
  }

 private:
  DropoutMask mask_;
};

at::Tensor masked_on_cpu(const at::Tensor& x, const DropoutMask& mask) {
  const at::Tensor in = x.detach().contiguous();
  at::Tensor out = at::empty_like(in);
  const int64_t grain = 1 + 32768 / (mask.size + 1);  // what is worth another thread
  at::parallel_for(0, mask.samples, grain, [&](int64_t begin, int64_t end) {
    apply_mask(mask, in.scalar_type(), in.data_ptr(), out.data_ptr(), begin, end);
  });
  return out;
}

/// Elsewhere the mask is made here and moved: right, if not fast.
at::Tensor masked_elsewhere(const at::Tensor& x, const DropoutMask& mask) {
  DropoutMask plain = mask;
  plain.scale = 1;
  const at::Tensor stays = masked_on_cpu(at::ones(x.sizes()), plain).to(at::kBool);
  return at::where(stays.to(x.device()), x.detach().mul(mask.scale), 0);
}

at::Tensor masked(const at::Tensor& x, const DropoutMask& mask) {
  at::Tensor out = x.is_cpu() ? masked_on_cpu(x, mask) : masked_elsewhere(x, mask);
  if (c10::GradMode::is_enabled() && x.requires_grad())
    torch::autograd::create_gradient_edge(
        out,
        make_node<DropoutBackward>(
            edge_list{torch::autograd::impl::gradient_edge(x)}, mask));
  return out;
}

/// How the elements of x are shared out to the samples of the context.
DropoutMask mask_for(
    const at::Tensor& x, double p, uint64_t layer, const RandomContext& context) {
  const int64_t rows = x.dim() == 0 ? 1 : x.size(0);
  const int64_t samples = context.samples == 0 ? rows : context.samples;
  if (samples < 0 || (samples > 0 && rows % samples != 0))
    throw InvalidArgument(text(
        "[autograd] expected dropout of a tensor whose first dim holds ",
        samples,
        " samples, got the shape ",
        x.sizes(),
        "; say which dim does (sample_dim), or in RandomScope how many there are"));
  const double threshold = std::ceil(p * 4294967296.0);
  return {
      .stream = RandomStream(context, layer),
      .first_sample = context.first_sample,
      .samples = samples,
      .size = samples == 0 ? 0 : x.numel() / samples,
      .threshold = static_cast<uint32_t>(std::min(threshold, 4294967295.0)),
      .scale = 1 / (1 - p)};
}

}  // namespace

at::Tensor dropout(
    const at::Tensor& x, double p, uint64_t layer, bool training, int64_t sample_dim) {
  if (!(p >= 0 && p <= 1))
    throw InvalidArgument(text(
        "[autograd] expected a dropout probability from 0 to 1, got ",
        p,
        "; it is the share of elements that become 0"));
  if (!training || p == 0)
    return x;
  if (p == 1)
    return at::where(at::zeros({}, x.options().dtype(at::kBool)), x, 0);
  if (!has_mask_kernel(x.scalar_type()))
    throw InvalidArgument(text(
        "[autograd] expected floating point numbers for dropout, got ",
        x.scalar_type(),
        "; convert them first"));
  const auto& context = current_random();
  if (!context)
    throw InvalidArgument(
        "[autograd] expected a random context for dropout in training, got none; make "
        "a "
        "RandomScope with seed, step and first sample around the forward");
  if (sample_dim == 0 || x.dim() < 2)
    return masked(x, mask_for(x, p, layer, *context));
  const at::Tensor by_sample = x.movedim(sample_dim, 0);
  return masked(by_sample, mask_for(by_sample, p, layer, *context))
      .movedim(0, sample_dim);
}

}  // namespace trireme::autograd
