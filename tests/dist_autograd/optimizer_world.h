// What tests of distributed optimizers share: a model of two layers on two workers, and
// the same in one process.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/autograd.h>
#include <torch/optim/optimizer.h>

#include "trireme/dist_autograd/distributed_optimizer.h"
#include "trireme/rpc/remote_error.h"
#include "worlds.h"

namespace trireme::dist_autograd {

using Parameter = rpc::RRef<at::Tensor>;
using Parameters = std::vector<Parameter>;

/// A parameter of the worker that is asked, and what it is used for there.
inline rpc::FunctionTable layer_functions() {
  rpc::FunctionTable table;
  table.add("keep", [](const at::Tensor& value, bool requires_grad) {
    return value.detach().clone().set_requires_grad(requires_grad);
  });
  table.add("layer", [](const Parameter& weight, const at::Tensor& x) {
    return at::tanh(at::matmul(x, *weight.local_value()));
  });
  table.add("times", [](const Parameter& weight, const at::Tensor& x) {
    return x * *weight.local_value();
  });
  table.add("sum", [](const Parameter& weight) { return weight.local_value()->sum(); });
  table.add("flatten", [](const Parameter& weight) {
    at::Tensor tensor = *weight.local_value();
    tensor.set_data(tensor.detach().flatten());
  });
  table.add(
      "grad_of", [](const Parameter& weight) { return weight.local_value()->grad(); });
  table.add("holders", [](const Parameter& weight) {
    return static_cast<std::int64_t>(weight.local_value()->storage().use_count());
  });
  return table;
}

inline Parameter keep_on(
    const Agent& agent,
    const std::string& worker,
    const at::Tensor& value,
    bool requires_grad = true) {
  return agent.to(worker).remote<at::Tensor>("keep", value, requires_grad);
}

inline at::Tensor value_of(const Parameter& parameter) {
  return parameter.to_here().detach();
}

/// What Way::Here is for optimizers: the same parameters in one process.
struct Twin {
  explicit Twin(const Tensors& values) {
    for (const at::Tensor& value : values)
      leaves.push_back(value.detach().clone().set_requires_grad(true));
  }
  at::Tensor loss(const at::Tensor& x) const {
    at::Tensor y = x;
    for (const at::Tensor& leaf : leaves)
      y = at::tanh(at::matmul(y, leaf));
    return y.pow(2).sum();
  }
  void backward(const at::Tensor& x) const {
    for (const at::Tensor& leaf : leaves)
      leaf.mutable_grad().reset();
    torch::autograd::backward({loss(x)}, {});
  }
  Tensors leaves;
};

inline at::Tensor loss_of(
    const Agent& agent, const Parameters& weights, const at::Tensor& x) {
  at::Tensor y = x;
  for (const Parameter& weight : weights)
    y = agent.to(weight.owner()).call<at::Tensor>("layer", weight, y);
  return y.pow(2).sum();
}

/// Four layers by turns on two workers.
inline Tensors layer_values() {
  Tensors values;
  for (int i = 0; i < 4; ++i)
    values.push_back(at::randn({5, 5}));
  return values;
}
inline Parameters keep_by_turns(
    const Agent& agent,
    const Tensors& values,
    const std::vector<std::string>& workers) {
  Parameters weights;
  for (std::size_t i = 0; i < values.size(); ++i)
    weights.push_back(keep_on(agent, workers[i % workers.size()], values[i]));
  return weights;
}

/// One step on all owners, and in one process.
inline void step_both(
    const Agent& agent,
    DistributedOptimizer& optimizer,
    const Parameters& weights,
    torch::optim::Optimizer& twin_optimizer,
    const Twin& twin) {
  const at::Tensor x = at::randn({3, 5});
  twin.backward(x);
  twin_optimizer.step();
  const Context context(agent);
  context.backward({loss_of(agent, weights, x)});
  EXPECT_EQ(
      optimizer.step(context).parameters, static_cast<std::int64_t>(weights.size()));
}

inline void expect_equal(const Parameters& weights, const Twin& twin) {
  for (std::size_t i = 0; i < weights.size(); ++i)
    EXPECT_TRUE(at::allclose(value_of(weights[i]), twin.leaves[i], 1.3e-6, 1e-5))
        << i << '\n'
        << value_of(weights[i]) << '\n'
        << twin.leaves[i];
}

}  // namespace trireme::dist_autograd
