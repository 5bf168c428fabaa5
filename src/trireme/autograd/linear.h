// A linear layer's product, by the quicker of libtorch's two libraries.
#pragma once
#include <ATen/core/Tensor.h>

namespace trireme::autograd {

/// How a weight is laid out: as torch.nn.Linear has it, or as Hugging Face's Conv1D.
enum class WeightOrder { OutIn, InOut };

/// x times the weight plus the bias, over the last dimension of x, as at::linear has
/// it.
///
///     y = autograd::linear(x, weight, bias);
///     y = autograd::linear(x, gpt2_weight, bias, autograd::WeightOrder::InOut);
///
/// libtorch multiplies float32 with MKL, which keeps its best kernels for Intel's CPUs:
/// on AMD's with AVX-512 this takes oneDNN for the product and for the gradient of x
/// (about a tenth less time), and MKL elsewhere, for small products, and for all that
/// is no float32 in a CPU's memory. The two round differently in the last bits. Which
/// one it is depends on the CPU and the sizes only, so a run can be repeated.
/// `at::globalContext().setUserEnabledMkldnn(false)` keeps oneDNN out.
at::Tensor linear(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& bias = {},
    WeightOrder order = WeightOrder::OutIn);

}  // namespace trireme::autograd
