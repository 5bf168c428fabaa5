// The two halves of a split backward; the rest of Executor is in executor.cpp.
#include <utility>

#include <c10/util/irange.h>
#include <torch/csrc/autograd/functions/tensor.h>

#include "trireme/autograd/call_node.h"
#include "trireme/autograd/executor.h"
#include "trireme/core/error.h"

namespace trireme::autograd {
namespace {

using torch::autograd::CopySlices;

/// Whether the two halves of this node cannot be computed one by one. A post-hook wants
/// to see all gradients at once; an in-place operation on a view has a second node
/// inside, with edges that must stay the same as its own.
bool runs_as_a_whole(Node& node) {
  return !node.post_hooks().empty() || dynamic_cast<CopySlices*>(&node) != nullptr;
}

/// What a node that splits itself gives in W, beside what it gave to weights in I.
void add_late(const Node& node, variable_list& gradients, variable_list late) {
  if (late.empty())
    return;
  check_gradients(node.next_edges(), late, &node);
  for (const size_t i : c10::irange(late.size())) {
    if (!late[i].defined())
      continue;
    if (!node.next_edge(i).is_valid())
      throw InvalidArgument(text(
          "[autograd] ",
          node.name(),
          ": expected gradients of weights only in the second half of its backward, "
          "got one for input ",
          i,
          ", which is gone by then; give it in input_pass()"));
    add_gradient(gradients[i], std::move(late[i]));
  }
}

}  // namespace

variable_list Executor::input_pass(
    Roots roots, const PassOptions& options, WeightRest& weights) {
  WeightRest rest;
  PassScope pass(*this, options);
  weights_ = &rest;
  is_input_pass_ = true;
  name_inputs(options.inputs);
  enter(roots);
  discover();
  mark();
  give_to_roots(roots.edges, 0, roots.gradients);
  drain();
  variable_list gradients = pass.finish();
  weights = std::move(rest);
  return gradients;
}

void Executor::weight_pass(WeightRest weights, const PassOptions& options) {
  PassScope pass(*this, options);
  weights_ = &weights;
  for (WeightRest::Border& border : weights.border_)
    if (!border.edges.empty())
      std::swap(border.edges, border.node->next_edges());
  enter(weights.roots_);
  enter_border(weights);
  discover();
  give_to_roots(weights.roots_.edges, 0, weights.roots_.gradients);
  for (WeightRest::Border& border : weights.border_)
    make_ready(index_.find(border.node.get()));
  drain();
  for (WeightRest::Border& border : weights.border_)
    if (!border.edges.empty())
      std::swap(border.edges, border.node->next_edges());
  pass.finish();
}

/// An order in which every node stands after all that lead to it. Numbers of nodes
/// would not do: each thread counts its own.
void Executor::sort_by_depth() {
  order_.clear();
  open_.resize(slots_.size());
  for (const uint32_t k : c10::irange(static_cast<uint32_t>(slots_.size())))
    open_[k] = slots_[k].waits_for;
  for (const uint32_t target : root_targets_)
    if (target < kSink)
      --open_[target];
  for (const uint32_t k : c10::irange(static_cast<uint32_t>(slots_.size())))
    if (open_[k] == 0)
      order_.push_back(k);
  for (size_t i = 0; i < order_.size(); ++i)
    for (const uint32_t target : targets_of(order_[i]))
      if (target < kSink && --open_[target] == 0)
        order_.push_back(target);
}

/// Finds out which nodes lead to an input, and where the border is; what leads to no
/// input leads to weights. What the pass around this one takes goes on to its inputs.
void Executor::mark() {
  sort_by_depth();
  for (auto k = order_.rbegin(); k != order_.rend(); ++k) {
    Slot& slot = slots_[*k];
    const std::span<const uint32_t> targets = targets_of(*k);
    slot.self_split = targets.empty() ? nullptr : dynamic_cast<SplitNode*>(slot.node);
    bool weight_below = slot.self_split != nullptr;
    for (const uint32_t target : targets) {
      if (target == kNowhere)
        continue;
      slot.to_input |= !leads_to_weights(target);
      weight_below |= leads_to_weights(target);
    }
    slot.border = slot.to_input && weight_below;
  }
}

/// A root that leads to weights only waits for W.
void Executor::put_aside(Edge& edge, at::Tensor& gradient) {
  weights_->roots_.edges.push_back(edge);
  weights_->roots_.gradients.push_back(std::move(gradient));
}

/// Takes the edges that lead to weights only out of a node.
edge_list Executor::cut_weights(uint32_t index) {
  edge_list& edges = slots_[index].node->next_edges();
  edge_list cut(edges.size());
  const std::span<uint32_t> targets = targets_of(index);
  for (const size_t i : c10::irange(edges.size()))
    if (leads_to_weights(targets[i])) {
      std::swap(cut[i], edges[i]);
      targets[i] = kNowhere;
    }
  return cut;
}

/// Whether all weights of a border node are vectors, as those of a norm. Their
/// gradients are by-products of dX and small: to call the node twice would cost more,
/// and so would keeping what it saved.
bool Executor::has_vectors_only(uint32_t index) {
  const edge_list& edges = slots_[index].node->next_edges();
  const std::span<const uint32_t> targets = targets_of(index);
  for (const size_t i : c10::irange(targets.size())) {
    if (!leads_to_weights(targets[i]))
      continue;
    const auto& weight = edges[i].function->input_metadata(edges[i].input_nr);
    if (weight.shape_as_dim_vector().size() > 1)
      return false;
  }
  return true;
}

/// The first half of a border node: only what goes to inputs.
void Executor::run_border(uint32_t index, variable_list gradients) {
  Node& node = *slots_[index].node;
  if (slots_[index].self_split != nullptr || runs_as_a_whole(node) ||
      has_vectors_only(index))
    return run_whole_border(index, std::move(gradients));
  if (counts_ != nullptr)
    // Torch's own nodes look which gradients are wanted; others may not.
    counts_->add(node.is_traceable() ? SplitCounts::kSplit : SplitCounts::kTwice, node);
  WeightRest::Border border{node.getptr(), gradients};
  edge_list to_weights = cut_weights(index);
  // The node sees that those edges are gone, and computes the others alone.
  pass_on(index, call_node(node, std::move(gradients), true));
  leave_to_weights(node, std::move(border), std::move(to_weights));
}

/// A node that splits itself, or is not split: it runs now, and what it gives to
/// weights is kept for W.
void Executor::run_whole_border(uint32_t index, variable_list gradients) {
  Slot& slot = slots_[index];
  WeightRest::Border border{.node = slot.node->getptr(), .has_run = true};
  if (counts_ != nullptr)
    counts_->add(
        slot.self_split != nullptr ? SplitCounts::kSplit : SplitCounts::kWhole,
        *slot.node);
  if (slot.self_split != nullptr) {
    std::vector<bool> to_inputs;
    for (const uint32_t target : targets_of(index))
      to_inputs.push_back(target != kNowhere && !leads_to_weights(target));
    slot.self_split->split_next_run(border.later, std::move(to_inputs));
  }
  variable_list outputs = call_node(*slot.node, std::move(gradients), keep_graph_);
  border.gradients.resize(outputs.size());
  edge_list to_weights = cut_weights(index);
  for (const size_t i : c10::irange(outputs.size()))
    if (to_weights[i].is_valid())
      border.gradients[i] = std::move(outputs[i]);
  pass_on(index, std::move(outputs));
  leave_to_weights(*slot.node, std::move(border), std::move(to_weights));
}

/// Leaves a border node to W, with its edges to weights only. If the graph is kept, W
/// puts them in place, and takes them away again.
void Executor::leave_to_weights(
    Node& node, WeightRest::Border border, edge_list to_weights) {
  edge_list& edges = node.next_edges();
  if (keep_graph_) {
    for (const size_t i : c10::irange(edges.size()))
      if (to_weights[i].is_valid())
        edges[i] = to_weights[i];
    border.edges = std::move(to_weights);
  } else {
    // The nodes below have still to run.
    cut_off_.push_back(std::exchange(edges, std::move(to_weights)));
  }
  weights_->border_.push_back(std::move(border));
}

void Executor::enter_border(WeightRest& weights) {
  for (const size_t i : c10::irange(weights.border_.size())) {
    Node* node = weights.border_[i].node.get();
    slots_[slot_of(node)].border_entry = static_cast<int32_t>(i);
  }
}

/// The second half of a border node, whose hooks the first one has called.
void Executor::run_border_entry(uint32_t index) {
  Slot& slot = slots_[index];
  WeightRest::Border& border =
      weights_->border_[static_cast<size_t>(slot.border_entry)];
  if (const WeightWork later = std::exchange(border.later, nullptr))
    add_late(*slot.node, border.gradients, later(*store_));
  if (!border.has_run)
    border.gradients = call_node(*slot.node, std::move(border.gradients), keep_graph_);
  pass_on(index, std::move(border.gradients));
}

}  // namespace trireme::autograd
