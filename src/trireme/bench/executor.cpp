#include "trireme/bench/executor.h"

#include <chrono>
#include <iostream>
#include <unordered_set>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include "trireme/bench/measure.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Tensors = std::vector<at::Tensor>;
using torch::autograd::impl::gradient_edge;

constexpr int kNodes = 500;  // and one for the leaf
constexpr int kDeep = 5000;
constexpr int kMlpLayers = 4;
constexpr int64_t kMlpWidth = 512;
constexpr int64_t kMlpRows = 256;

Tensors make_leaves(const std::string& kind) {
  Tensors leaves;
  if (kind == "mlp")
    for (int i = 0; i < kMlpLayers; ++i) {
      leaves.push_back(at::randn({kMlpWidth, kMlpWidth}) * 0.05);
      leaves.push_back(at::zeros({kMlpWidth}));
    }
  else if (kind == "wide")
    for (int i = 0; i < kNodes; ++i)
      leaves.push_back(at::ones({16}));
  else
    leaves.push_back(at::ones({16}));
  for (at::Tensor& leaf : leaves)
    leaf.set_requires_grad(true);
  return leaves;
}

GraphBackward::Maker make_chain(int nodes) {
  return [nodes, factor = at::ones({16})](const Tensors& leaves) {
    at::Tensor x = leaves[0];
    for (int i = 0; i < nodes; ++i)
      x = x.mul(factor);
    return x;
  };
}

at::Tensor make_views(const Tensors& leaves) {
  at::Tensor x = leaves[0];
  for (int i = 0; i < kNodes; i += 2)
    x = x.unsqueeze(0).squeeze(0);
  return x;
}

at::Tensor make_wide(const Tensors& leaves) {
  Tensors parts;
  for (const at::Tensor& leaf : leaves)
    parts.push_back(leaf.mul(2));
  return at::stack(parts);
}

GraphBackward::Maker make_mlp() {
  return [input = at::randn({kMlpRows, kMlpWidth})](const Tensors& leaves) {
    at::Tensor x = input;
    for (size_t i = 0; i + 1 < leaves.size(); i += 2)
      x = at::relu(at::linear(x, leaves[i], leaves[i + 1]));
    return x;
  };
}

GraphBackward::Maker make_forward(const std::string& kind) {
  if (kind == "small")
    return make_chain(kNodes);
  if (kind == "deep")
    return make_chain(kDeep);
  if (kind == "views")
    return make_views;
  if (kind == "wide")
    return make_wide;
  if (kind == "mlp")
    return make_mlp();
  throw InvalidArgument(text(
      "[bench] expected a graph small, views, mlp, wide or deep, got ",
      kind,
      "; take one of them"));
}

}  // namespace

const std::vector<GraphCase>& graph_cases() {
  static const std::vector<GraphCase> cases{
      {.kind = "small", .name = "501 small nodes"},
      {.kind = "views", .name = "501 views"},
      // Nearly all of it is products, the same on both sides.
      {.kind = "mlp", .name = "MLP, d 512, batch 256", .repetitions = 10},
      {.kind = "wide", .name = "500 leaves"},
      {.kind = "deep", .name = "chain of 5001 nodes", .repetitions = 20}};
  return cases;
}

GraphBackward::GraphBackward(const std::string& kind)
    : leaves_(make_leaves(kind)), forward_(make_forward(kind)) {}

double GraphBackward::run(bool ours) {
  const at::Tensor output = forward_(leaves_);
  // Whoever runs it, the graph dies after the clock has stopped.
  const autograd::edge_list edges{gradient_edge(output)};
  const autograd::variable_list gradients{at::ones_like(output)};
  const auto start = Clock::now();
  if (ours)
    executor_.backward({edges, gradients}, {});
  else
    torch::autograd::Engine::get_default_engine().execute(
        edges, gradients, false, false, true, {});
  const double time = std::chrono::duration<double>(Clock::now() - start).count();
  for (at::Tensor& leaf : leaves_)
    leaf.mutable_grad() = at::Tensor();
  return time;
}

size_t GraphBackward::nodes() const {
  const at::Tensor output = forward_(leaves_);
  std::vector<const autograd::Node*> open{gradient_edge(output).function.get()};
  std::unordered_set<const autograd::Node*> seen(open.begin(), open.end());
  while (!open.empty()) {
    const autograd::Node* node = open.back();
    open.pop_back();
    for (const autograd::Edge& edge : node->next_edges())
      if (edge.is_valid() && seen.insert(edge.function.get()).second)
        open.push_back(edge.function.get());
  }
  return seen.size();
}

std::vector<Record> measure_executor(const GraphRound& round, int rounds) {
  std::vector<Record> records;
  for (const GraphCase& one : graph_cases()) {
    Record record{
        .name = text("executor, ", one.name, ": ours beside torch's engine"),
        .goal = one.goal};
    std::cerr << "bench pipe: " << record.name << std::endl;
    repeat_rounds({.rounds = rounds}, [&](int) { round(one, record); });
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace trireme::bench
