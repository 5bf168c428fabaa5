#include "trireme/autograd/linear.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/autograd/node.h"

namespace trireme::autograd {
namespace {

using torch::autograd::SavedVariable;
using OneDnnLinear = at::Tensor(
    const at::Tensor&,
    const at::Tensor&,
    const std::optional<at::Tensor>&,
    std::string_view,
    c10::List<std::optional<at::Scalar>>,
    std::optional<std::string_view>);

/// Multiplications, below which finding oneDNN's kernel takes longer than it saves.
constexpr int64_t kSmall = 10'000'000;
/// With fewer rows it is the weight's way from memory that takes the time.
constexpr int64_t kFewRows = 16;

bool mkl_is_slow_here() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512f");
#else
  return false;
#endif
}

/// Null where this libtorch has no such operator.
const c10::TypedOperatorHandle<OneDnnLinear>* onednn_linear() {
  static const auto found =
      []() -> std::optional<c10::TypedOperatorHandle<OneDnnLinear>> {
    const auto handle =
        c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!mkl_is_slow_here() || !handle ||
        !handle->hasKernelForDispatchKey(c10::DispatchKey::CPU))
      return std::nullopt;
    try {
      return handle->typed<OneDnnLinear>();
    } catch (const c10::Error&) {
      return std::nullopt;  // one of another signature
    }
  }();
  return found ? &*found : nullptr;
}

/// The same matrix as [out, in].
at::Tensor out_in(const at::Tensor& weight, WeightOrder order) {
  return order == WeightOrder::OutIn ? weight : weight.t();
}

/// rows [n, in] times a weight [out, in] of any strides; below autograd.
at::Tensor product(
    const at::Tensor& rows, const at::Tensor& weight, const at::Tensor& bias) {
  const auto* onednn = onednn_linear();
  if (onednn != nullptr && at::globalContext().userEnabledMkldnn())
    return onednn->call(
        rows,
        weight,
        bias.defined() ? std::optional(bias) : std::nullopt,
        "none",
        c10::List<std::optional<at::Scalar>>(),
        "");
  return bias.defined() ? at::addmm(bias, rows, weight.t()) : at::mm(rows, weight.t());
}

at::Tensor rows_of(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

class LinearBackward : public Node {
 public:
  LinearBackward(
      edge_list edges, const at::Tensor& x, const at::Tensor& weight, WeightOrder order)
      : Node(std::move(edges)), order_(order) {
    // What no gradient needs is not kept: a frozen weight asks for no inputs.
    if (should_compute_output(0))
      weight_ = SavedVariable(weight, false);
    if (should_compute_output(1))
      x_ = SavedVariable(x, false);
  }

  std::string name() const override { return "trireme::LinearBackward"; }
  void release_variables() override {
    x_.reset_data();
    weight_.reset_data();
  }

  variable_list apply(variable_list&& gradients) override {
    variable_list results(3);
    const at::Tensor& gradient = gradients[0];
    if (!gradient.defined())
      return results;
    const at::Tensor rows = rows_of(gradient);
    if (should_compute_output(0))
      results[0] = gradient_of_x(rows, gradient.sizes().vec());
    if (should_compute_output(1)) {
      const at::Tensor x = rows_of(x_.unpack());
      results[1] =
          order_ == WeightOrder::OutIn ? at::mm(rows.t(), x) : at::mm(x.t(), rows);
    }
    if (should_compute_output(2))
      results[2] = rows.sum(0);
    return results;
  }

 private:
  at::Tensor gradient_of_x(const at::Tensor& rows, std::vector<int64_t> sizes) const {
    const at::Tensor weight = out_in(weight_.unpack(), order_);
    sizes.back() = weight.size(1);
    // A graph of gradients needs an operator that torch can differentiate.
    if (c10::GradMode::is_enabled())
      return at::mm(rows, weight).view(sizes);
    const at::AutoDispatchBelowADInplaceOrView no_graph;
    return product(rows, weight.t(), {}).view(sizes);
  }

  WeightOrder order_;
  SavedVariable x_, weight_;
};

bool is_float_on_cpu(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat &&
         tensor.layout() == at::kStrided;
}

/// All else is libtorch's: small products, other types, and what has to be refused.
bool is_ours(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    WeightOrder order) {
  if (x.dim() == 0 || weight.dim() != 2 || !is_float_on_cpu(x) ||
      !is_float_on_cpu(weight))
    return false;
  const bool swapped = order == WeightOrder::InOut;
  const int64_t in = weight.size(swapped ? 0 : 1), out = weight.size(swapped ? 1 : 0);
  const bool fits = !bias.defined() || (is_float_on_cpu(bias) && bias.dim() == 1 &&
                                        bias.size(0) == out && bias.is_contiguous());
  return fits && x.size(-1) == in && weight.is_non_overlapping_and_dense() &&
         x.numel() >= kFewRows * in && x.numel() * out >= kSmall &&
         !at::autocast::is_autocast_enabled(at::kCPU);
}

at::Tensor by_libtorch(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    WeightOrder order) {
  if (order == WeightOrder::OutIn)
    return at::linear(x, weight, bias);
  if (!bias.defined())
    return at::matmul(x, weight);
  const at::Tensor rows = rows_of(x);
  auto sizes = x.sizes().vec();
  sizes.back() = weight.size(1);
  return at::addmm(bias, rows, weight).view(sizes);
}

at::Tensor by_us(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    WeightOrder order) {
  const at::AutoDispatchBelowADInplaceOrView no_graph;
  const at::Tensor matrix = out_in(weight, order);
  auto sizes = x.sizes().vec();
  sizes.back() = matrix.size(0);
  return product(rows_of(x), matrix, bias).view(sizes);
}

Edge edge_to(const at::Tensor& tensor) {
  return tensor.defined() ? torch::autograd::impl::gradient_edge(tensor) : Edge();
}

}  // namespace

at::Tensor linear(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias,
    WeightOrder order) {
  if (!is_ours(x, weight, bias, order))
    return by_libtorch(x, weight, bias, order);
  at::Tensor y = by_us(x, weight, bias, order);
  if (c10::GradMode::is_enabled() &&
      (needs_gradient(x) || needs_gradient(weight) || needs_gradient(bias)))
    torch::autograd::create_gradient_edge(
        y,
        make_node<LinearBackward>(
            edge_list{edge_to(x), edge_to(weight), edge_to(bias)}, x, weight, order));
  return y;
}

}  // namespace trireme::autograd
