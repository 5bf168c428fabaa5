#include "random_ops.h"

#include <array>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>

namespace trireme::autograd {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;

/// Two outputs, undefined gradients as they come, and none for the second input.
struct TwoOutputs : Function<TwoOutputs> {
  static variable_list forward(AutogradContext* context, Tensor a, Tensor b) {
    context->save_for_backward({a});
    context->set_materialize_grads(false);
    return {a * 2 + b.detach(), a.sin()};
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor a = context->get_saved_variables()[0];
    Tensor sum;
    if (gradients[0].defined())
      sum = gradients[0] * 2;
    if (gradients[1].defined())
      sum = sum.defined() ? sum + gradients[1] * a.cos() : gradients[1] * a.cos();
    return {sum, Tensor()};
  }
};

/// Computes itself again with torch's engine inside the backward.
struct Again : Function<Again> {
  static Tensor forward(AutogradContext* context, Tensor x, Tensor w) {
    context->save_for_backward({x, w});
    return x.matmul(w).tanh();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    c10::AutoGradMode grad_mode(true);
    const Tensor x = saved[0].detach().requires_grad_();
    const Tensor w = saved[1].detach().requires_grad_();
    return torch::autograd::grad({x.matmul(w).tanh()}, {x, w}, {gradients[0]});
  }
};

/// Computes what is asked for, and nothing else.
struct OnlyNeeded : Function<OnlyNeeded> {
  static Tensor forward(AutogradContext* context, Tensor x, Tensor w) {
    context->save_for_backward({x, w});
    return x * w;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    return {
        context->needs_input_grad(0) ? gradients[0] * saved[1] : Tensor(),
        context->needs_input_grad(1) ? (gradients[0] * saved[0]).sum(0) : Tensor()};
  }
};

Tensor indices(std::initializer_list<int64_t> values) {
  return at::tensor(at::ArrayRef<int64_t>(values.begin(), values.size()), at::kLong);
}

/// Weights by what they are for.
enum Weight {
  kSquare,
  kRow,
  kColumn,
  kTable,
  kGates1,
  kGates2,
  kScale,
  kFilter,
  kFloat,
  kBrain
};

Tensor in_place_on_view(const OpArguments& in) {
  const Tensor y = in.a.clone();
  y.narrow(1, 0, 3).mul_(in.b.narrow(1, 2, 3).sin());
  return y;
}
Tensor weight_into_view(const OpArguments& in) {
  const Tensor y = in.a.clone();
  y.narrow(1, 1, 4).mul_(in.w[kRow].narrow(0, 2, 4));
  y.t().slice(0, 2, 5).copy_(in.w[kSquare].slice(0, 0, 3).narrow(1, 0, 4));
  return y;
}
Tensor view_of_weight(const OpArguments& in) {
  const Tensor y = in.w[kSquare].slice(0, 1, 5).clone();
  y.select(0, 1).add_(in.a.select(0, 2));
  return y.sigmoid_();
}
Tensor chunks(const OpArguments& in) {
  const auto parts = in.a.chunk(3, 1);
  return at::cat({parts[2], parts[0], in.b.narrow(1, 0, 2)}, 1);
}
Tensor two_outputs(const OpArguments& in) {
  return TwoOutputs::apply(in.a, in.b)[in.numbers.below(2)];
}
Tensor rows(const OpArguments& in) {
  const auto all = in.a.unbind(0);
  return at::stack({all[0], all[3], all[0], in.b.select(0, 1)});
}
Tensor bag(const OpArguments& in) {
  const Tensor sums = std::get<0>(at::embedding_bag(
      in.w[kTable],
      indices({1, 2, 2, 9, 4, 0}),
      indices({0, 2, 4, 5}),
      false,
      0,
      true));
  return sums * in.b.tanh();
}
Tensor sparse_and_dense(const OpArguments& in) {
  return at::embedding(in.w[kTable], indices({0, 5, 5, 9}), -1, false, true) +
         in.w[kTable].slice(0, 2, 6) * in.b;
}
Tensor cell(const OpArguments& in) {
  const auto [h, c] =
      at::lstm_cell(in.a, {in.b, in.a.tanh()}, in.w[kGates1], in.w[kGates2]);
  return in.numbers.below(2) ? h : c;
}
Tensor convolution(const OpArguments& in) {
  const Tensor y = at::conv1d(in.a.unsqueeze(0), in.w[kFilter]).squeeze(0);
  return at::cat({y, in.b.slice(0, 0, 1)}, 0);
}
Tensor put(const OpArguments& in) {
  Tensor y = in.a.clone();
  y.index_put_({indices({1, 1, 2})}, in.b.slice(0, 0, 3), true);
  return y;
}
Tensor norm_of_norm(const OpArguments& in) {
  const auto [y, mean, rstd] =
      at::native_layer_norm(in.a, {6}, in.w[kScale], in.w[kRow], 1e-3);
  return in.numbers.below(2) ? y : y + mean.tanh();
}

const std::array kOps{
    RandomOp([](const OpArguments& in) { return in.a + in.w[kRow]; }),
    RandomOp([](const OpArguments& in) { return in.b * in.w[kColumn]; }),
    RandomOp([](const OpArguments& in) { return in.a.matmul(in.w[kSquare]); }),
    RandomOp([](const OpArguments& in) {
      return at::addmm(in.w[kRow], in.a, in.w[kSquare].t());
    }),
    RandomOp([](const OpArguments& in) { return at::gelu(in.a); }),
    chunks,
    in_place_on_view,
    weight_into_view,
    view_of_weight,
    norm_of_norm,
    RandomOp([](const OpArguments& in) {
      return in.a.to(at::kFloat).sin().to(at::kDouble);
    }),
    RandomOp([](const OpArguments& in) {
      return (in.a.tanh() * in.w[kFloat]).to(at::kDouble);
    }),
    RandomOp([](const OpArguments& in) {
      return (in.a.to(at::kBFloat16) * in.w[kBrain]).to(at::kDouble);
    }),
    bag,
    sparse_and_dense,
    rows,
    RandomOp([](const OpArguments& in) { return std::get<0>(in.a.sort(1)); }),
    RandomOp([](const OpArguments& in) {
      return in.a.index_select(0, indices({3, 0, 0, 1}));
    }),
    two_outputs,
    RandomOp([](const OpArguments& in) { return Again::apply(in.a, in.w[kSquare]); }),
    RandomOp([](const OpArguments& in) { return OnlyNeeded::apply(in.a, in.w[kRow]); }),
    cell,
    convolution,
    RandomOp([](const OpArguments& in) {
      return in.a.sum(0, true).expand({4, 6}) * 0.3;
    }),
    RandomOp([](const OpArguments& in) {
      return at::where(in.b > 0, in.a, in.w[kRow].expand({4, 6}));
    }),
    RandomOp([](const OpArguments& in) { return in.a.detach() * 0.5; }),
    RandomOp(
        [](const OpArguments& in) { return std::get<0>(in.a.max(1, true)) + in.b; }),
    RandomOp([](const OpArguments& in) { return in.a.clone().add_(in.b, 0.5); }),
    put,
    RandomOp([](const OpArguments& in) {
      return in.a.matmul(in.b.t()).softmax(1).matmul(in.a);
    }),
    RandomOp([](const OpArguments& in) {
      return at::complex(in.a.tanh(), in.b.tanh()).abs();
    }),
    RandomOp([](const OpArguments& in) {
      return in.a.reshape({2, 12}).t().reshape({4, 6}).sigmoid();
    }),
    RandomOp([](const OpArguments& in) {
      return in.a.cumsum(1).gather(1, at::zeros({4, 6}, at::kLong));
    }),
};

}  // namespace

RandomNumbers::RandomNumbers(uint64_t seed)
    : numbers_(seed), generator_(at::make_generator<at::CPUGeneratorImpl>(seed)) {}

Tensor RandomNumbers::normal(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::randn(sizes, generator_, at::TensorOptions(dtype)) * 0.5;
}

std::span<const RandomOp> random_ops() {
  return kOps;
}

bool gives_undefined(RandomOp op) {
  return op == two_outputs;
}

variable_list random_weights(RandomNumbers& numbers) {
  const std::vector<std::vector<int64_t>> sizes{
      {6, 6}, {6}, {4, 1}, {10, 6}, {24, 6}, {24, 6}, {6}, {3, 4, 1}};
  variable_list weights;
  for (const auto& size : sizes)
    weights.push_back(numbers.normal(size));
  weights[kSquare] = weights[kSquare].t();  // gradients take the layout of their leaf
  weights.push_back(numbers.normal({6}, at::kFloat));
  weights.push_back(numbers.normal({6}, at::kBFloat16));
  for (const Tensor& weight : weights)
    weight.set_requires_grad(true);
  return weights;
}

}  // namespace trireme::autograd
